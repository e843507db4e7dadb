#include "dsl/tile/interpret/Run.h"

#include "dsl/tile/ir/Text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace kiln::tile {

Run::Run(const Kernel &kernel, Memory &m, Outcome &o) : k(kernel), memory(m), out(o) {
    for (const View &v : k.views) {
        if (!v.is_buffer()) {
            std::vector<int64_t> extents;
            for (const Expr &e : v.extents) {
                extents.push_back(integer(e, {}));
            }
            memory[v.name] = Array(v.type, extents);
            if (v.memory == View::Memory::Workspace) {
                shares_[v.name].resize(memory[v.name].bytes.size() / static_cast<size_t>(v.type.bytes()));
            }
            continue;
        }
        const Array &a = array(v.name);
        if (a.type != v.type || static_cast<int>(a.extents.size()) != v.rank) {
            refuse("K1167", fmt::format("view `{}` is {} of rank {}, its array {} of rank {}", v.name,
                                        type_name(v.type), v.rank, type_name(a.type), a.extents.size()));
        }
        if (v.is_output) {
            written_[v.name].resize(a.bytes.size() / static_cast<size_t>(a.type.bytes()));
        }
    }
}

Array &Run::array(const std::string &view) const {
    auto a = memory.find(view);
    if (a == memory.end()) {
        refuse("K1167", fmt::format("view `{}` has no array", view));
    }
    return a->second;
}

int64_t Run::variable(const std::string &name, const Variables &scope) const {
    if (auto v = scope.find(name); v != scope.end()) {
        return v->second;
    }
    for (const char *what : {".extent.", ".stride.", ".min."}) {
        const size_t at = name.rfind(what);
        auto a = at == std::string::npos ? memory.end() : memory.find(name.substr(0, at));
        if (a != memory.end()) {
            const size_t d = std::stoul(name.substr(at + std::string(what).size()));
            return what[1] == 'm' ? 0 : (what[1] == 'e' ? a->second.extents : a->second.strides).at(d);
        }
    }
    throw Fault{fmt::format("`{}` has no value here", name)};
}

int64_t Run::integer(const Expr &e, const Variables &scope) const {
    if (auto *c = e.as<Halide::Internal::IntImm>()) {
        return c->value;
    }
    OnePlace one(*this, scope);
    return Evaluator(one)(e)->integer(0);
}

int64_t Run::grid_size() const {
    int64_t n = 1;
    for (const GridLoop &g : k.grid) {
        n *= (std::max<int64_t>(0, integer(g.extent, {})) + g.cluster - 1) / g.cluster * g.cluster;
    }
    return n;
}

Variables Run::grid_variables(int64_t n) const {
    Variables v;
    const int64_t blocks = k.cluster_blocks();
    int64_t rank = n % blocks, rest = n / blocks;
    for (const GridLoop &g : k.grid) {
        const int64_t clusters = (integer(g.extent, {}) + g.cluster - 1) / g.cluster;
        v[g.name] = rest % clusters * g.cluster + rank % g.cluster;
        rest /= clusters;
        rank /= g.cluster;
    }
    v["cluster.rank"] = n % blocks;
    return v;
}

std::vector<int64_t> Run::bases(const Region &r, const Variables &scope) const {
    std::vector<int64_t> at;
    for (const ViewDim &d : r.dims) {
        at.push_back(integer(d.base, scope));
    }
    if (at.size() != array(r.view).extents.size()) {
        throw Fault{fmt::format("`{}` names {} dimensions, the view has {}", print(k, r), at.size(),
                                array(r.view).extents.size())};
    }
    return at;
}

std::string at_text(const std::vector<int64_t> &index) {
    return fmt::format("({})", fmt::join(index, ", "));
}

void Run::mark(const std::string &view, const Array &a, int64_t at, const std::vector<int64_t> &index) {
    if (auto share = shares_.find(view); share != shares_.end()) {
        if (share->second[static_cast<size_t>(at)] != 0) {
            throw Fault{fmt::format("workspace `{}` is written twice at {}", view, at_text(index))};
        }
        share->second[static_cast<size_t>(at)] = writer + 1;
        hidden_[writer].push_back({view, at});
        return;
    }
    auto w = written_.find(view);
    if (w == written_.end()) {
        throw Fault{fmt::format("input `{}` is written at {}", view, at_text(index))};
    }
    if (w->second[static_cast<size_t>(at)]++) {
        throw Fault{fmt::format("`{}` is written twice at {}", view, at_text(index))};
    }
}

bool Run::write(const std::string &view, const std::vector<int64_t> &index, const Column &value, size_t i) {
    Array &a = array(view);
    if (!a.contains(index)) {
        return false;
    }
    const int64_t at = a.offset(index);
    mark(view, a, at, index);
    if (value.is_real) {
        a.set(at, value.number(i));
    } else {
        store_integer(a.type, a.bytes.data() + at * a.type.bytes(), value.integer(i));
    }
    return true;
}

bool Run::write(const std::string &view, const std::vector<int64_t> &index, double value) {
    return write(view, index, Column::of(value), 0);
}

void Run::publish(int64_t who) {
    for (const auto &[view, at] : hidden_[who]) {
        shares_.at(view)[static_cast<size_t>(at)] = -1;
    }
    hidden_[who].clear();
}

bool Run::arrive(const Region &at, int64_t parts, const Variables &scope) {
    Array &counters = array(at.view);
    const std::vector<int64_t> index = bases(at, scope);
    if (!counters.contains(index)) {
        throw Fault{fmt::format("no counter {} in `{}`", at_text(index), at.view)};
    }
    const int64_t offset = counters.offset(index);
    const int64_t before = static_cast<int64_t>(counters.get(offset));
    counters.set(offset, before + 1 == parts ? 0 : static_cast<double>(before + 1));
    return before + 1 == parts;
}

void Run::check_written() const {
    for (const View &v : k.views) {
        if (v.memory == View::Memory::Counters) {
            const Array &a = array(v.name);
            a.each([&](int64_t at) {
                if (a.get(at) != 0) {
                    throw Fault{fmt::format("at the end counter {} of `{}` stands at {}: not all parts came",
                                            at, v.name, a.get(at))};
                }
            });
        }
    }
    for (const auto &[view, written] : written_) {
        const Array &a = array(view);
        std::vector<int64_t> index(a.extents.size());
        for (int64_t i = 0, n = a.size(); i < n; i++) {
            if (!written[static_cast<size_t>(a.offset(index))]) {
                throw Fault{fmt::format("`{}` is not written at {}", view, at_text(index))};
            }
            for (size_t d = 0; d < index.size() && ++index[d] == a.extents[d]; d++) {
                index[d] = 0;
            }
        }
    }
}

ColumnPtr OnePlace::variable(const std::string &name) {
    return std::make_shared<Column>(Column::of(run_.variable(name, scope_)));
}

ColumnPtr OnePlace::view(const std::string &name, const std::vector<ColumnPtr> &at, const Mask &mask) {
    return run_.read_view(name, at, mask, false);
}

ColumnPtr Run::read_view(const std::string &view, const std::vector<ColumnPtr> &at, const Mask &mask,
                         bool by_warps) const {
    const Array &a = array(view);
    const auto share = shares_.find(view);
    if (at.size() != a.extents.size()) {
        throw Fault{fmt::format("`{}` is read with {} indices, it has {} dimensions", view, at.size(),
                                a.extents.size())};
    }
    size_t n = mask ? mask->size() : 1;
    for (const ColumnPtr &c : at) {
        n = std::max(n, c->size());
    }
    auto out = std::make_shared<Column>(Column::sized(a.type, n));
    std::vector<int64_t> index(at.size());
    std::set<std::vector<int64_t>> asked; // registers that hold the same elements are read once
    std::vector<int64_t> lanes;
    for (size_t i = 0; i < n; i++) {
        if (!mask || (*mask)[i]) {
            for (size_t d = 0; d < at.size(); d++) {
                index[d] = at[d]->integer(i);
            }
            if (share != shares_.end()) {
                const int64_t state =
                    a.contains(index) ? share->second[static_cast<size_t>(a.offset(index))] : 0;
                if (state != -1 && state != writer + 1) {
                    throw Fault{fmt::format("workspace `{}` is read at {}, {}", view, at_text(index),
                                            state == 0 ? "where no block has written"
                                                       : "which its writer has not published")};
                }
            }
            if (a.contains(index)) {
                const int64_t offset = a.offset(index) * a.type.bytes();
                const uint8_t *p = a.bytes.data() + offset;
                out->is_real ? void(out->real[i] = load_element(a.type, p))
                             : void(out->whole[i] = load_integer(a.type, p));
                lanes.push_back(offset);
            } else {
                this->out.counters.outside_reads++;
            }
        }
        if (i % 32 == 31 || i + 1 == n) {
            lanes.push_back(static_cast<int64_t>(i / 32 % 4)); // warps of one warpgroup are apart
            if (by_warps && lanes.size() > 1 && asked.insert(lanes).second) {
                lanes.pop_back();
                count_sectors(this->out.counters.view_reads, lanes, a.type.bytes());
            }
            lanes.clear();
        }
    }
    return out;
}

void count_sectors(Accesses &to, std::vector<int64_t> lanes, int bytes) {
    std::set<int64_t> sectors;
    for (int64_t at : lanes) {
        for (int64_t s = at / 32; s <= (at + bytes - 1) / 32; s++) {
            sectors.insert(s);
        }
    }
    std::sort(lanes.begin(), lanes.end());
    const int64_t different = std::unique(lanes.begin(), lanes.end()) - lanes.begin();
    to.requests++;
    to.bytes += different * bytes;
    to.parts += static_cast<int64_t>(sectors.size());
    to.least += (different * bytes + 31) / 32;
}

void count_banks(Accesses &to, const std::vector<int64_t> &lanes, int bytes) {
    // 8- and 16-byte accesses go in 2 and 4 passes of 16 and 8 lanes (CUDA programming guide, "Shared memory").
    const size_t pass = static_cast<size_t>(32 / std::max(1, bytes / 4));
    to.requests++;
    for (size_t from = 0; from < lanes.size(); from += pass) {
        std::set<int64_t> words;
        for (size_t i = from; i < std::min(lanes.size(), from + pass); i++) {
            for (int64_t w = lanes[i] / 4; w <= (lanes[i] + bytes - 1) / 4; w++) {
                words.insert(w);
            }
        }
        std::map<int64_t, int64_t> banks;
        int64_t most = 0;
        for (int64_t w : words) {
            most = std::max(most, ++banks[w % 32]);
        }
        to.parts += most;
        to.least += (static_cast<int64_t>(words.size()) + 31) / 32;
        to.bytes += static_cast<int64_t>(words.size()) * 4;
    }
}

Outcome interpret(const Kernel &k, Memory &memory, const Mode &mode) {
    Outcome out;
    Run run(k, memory, out);
    try {
        if (is_early(k)) {
            run_early(run);
        } else {
            run_final(run, mode);
        }
        run.check_written();
    } catch (const Fault &f) {
        out.fault = f.text;
    }
    return out;
}

std::vector<std::string> unreached(const Kernel &k, const Outcome &outcome) {
    std::vector<std::string> texts;
    walk(k.body, [&](const Stmt &s) {
        if (!outcome.reached.count(&s)) {
            texts.push_back(print(k, s));
        }
    });
    return texts;
}

} // namespace kiln::tile
