/** \file
 * Attention for the tests of its variants: operands of any layout, and the formula in double for whatever a variant changes
 * of it. Shares nothing with dsl/ops.
 */
#pragma once

#include "cases_support.h"

#include "dsl/lower/LibraryRequest.h"

namespace kiln::test {

struct AttentionSizes {
    int64_t queries, keys, d = 16, dv = 16, heads = 2, kv_heads = 1, batches = 1;
    int64_t page = 0; ///< keys in pages of that many
};

/// What a variant changes of softmax(q k / sqrt(D)) v.
struct AttentionForm {
    std::function<bool(int64_t b, int64_t i, int64_t j)> visible = [](int64_t, int64_t, int64_t) {
        return true;
    };
    std::function<double(double s, int64_t b, int64_t h, int64_t i, int64_t j)> change =
        [](double s, int64_t, int64_t, int64_t, int64_t) { return s; };
    std::function<double(int64_t h)> sink = [](int64_t) { return -INFINITY; };
    /// Where key j of batch b lies: the place in dimensions 1 and 3 of k and v.
    std::function<std::pair<int64_t, int64_t>(int64_t b, int64_t j)> place = [](int64_t b, int64_t j) {
        return std::pair(j, b);
    };
};

struct AttentionOperands {
    kiln_type type;
    AttentionSizes sizes;
    Tensor q, k, v, y, lse;

    AttentionOperands(kiln_type t, AttentionSizes s, const Layout &lq = {}, const Layout &lk = {},
                      const Layout &lv = {}, const Layout &ly = {})
        : type(t), sizes(s), q(t, {s.d, s.queries, s.heads, s.batches}, lq), k(t, stored(s, s.d), lk),
          v(t, stored(s, s.dv), lv), y(t, {s.dv, s.queries, s.heads, s.batches}, ly),
          lse(KILN_FLOAT32, {s.queries, s.heads, s.batches}) {
        q.fill(1);
        k.fill(2);
        v.fill(3);
    }

    /// NaN in each key and value that no query may see.
    void poison(const AttentionForm &form) {
        std::vector<bool> seen(size_t(k.extent(1) * k.extent(3)), false);
        for (int64_t b = 0; b < sizes.batches; b++) {
            for (int64_t j = 0; j < sizes.keys; j++) {
                for (int64_t i = 0; i < sizes.queries; i++) {
                    if (form.visible(b, i, j)) {
                        auto [row, batch] = form.place(b, j);
                        seen[size_t(row + batch * k.extent(1))] = true;
                    }
                }
            }
        }
        for (Tensor *t : {&k, &v}) {
            t->each([&](const std::vector<int64_t> &at) {
                if (!seen[size_t(at[1] + at[3] * k.extent(1))]) {
                    t->set_nan(at);
                }
            });
        }
    }

    /// "" or the first of the values that are wrong, and how many are. A score is a sum of D products; an error e of
    /// scores changes a mean of v by at most 2 e max|v|, and sums over keys round K times.
    std::string faults(const AttentionForm &form, bool with_lse) const {
        const int64_t group = sizes.heads / sizes.kv_heads;
        int64_t wrong = 0;
        std::string first;
        auto expect = [&](double got, double want, double bound, const std::string &what) {
            if (!close(got, want, bound) && wrong++ == 0) {
                std::ostringstream text;
                text << what << ": " << got << " for " << want << " +- " << bound;
                first = text.str();
            }
        };
        for (int64_t b = 0; b < sizes.batches; b++) {
            for (int64_t h = 0; h < sizes.heads; h++) {
                for (int64_t i = 0; i < sizes.queries; i++) {
                    const Row row = scores(form, b, h, h / group, i);
                    const std::string at = "query " + std::to_string(i) + " head " + std::to_string(h) +
                                           " batch " + std::to_string(b);
                    for (int64_t c = 0; c < sizes.dv; c++) {
                        double value = 0, size = 0;
                        for (int64_t j = 0; j < sizes.keys; j++) {
                            if (row.p[size_t(j)] > 0) {
                                auto [key, batch] = form.place(b, j);
                                double x = v.get({c, key, h / group, batch});
                                value += row.p[size_t(j)] * x;
                                size = std::max(size, std::abs(x));
                            }
                        }
                        double bound = unit_of(type) * std::abs(value) + 2 * row.off * size +
                                       double(sizes.keys + 2) * 0x1p-23 * size;
                        expect(y.get({c, i, h, b}), value, bound, at + " c " + std::to_string(c));
                        wrong += row.empty && y.bits({c, i, h, b}) != 0; // -0 is not 0
                    }
                    if (with_lse) {
                        expect(lse.get({i, h, b}), row.lse,
                               row.off + double(sizes.keys + 16) * 0x1p-23 * (1 + std::abs(row.lse)),
                               "lse of " + at);
                    }
                }
            }
        }
        wrong += !y.surroundings_untouched();
        return wrong == 0 ? "" : std::to_string(wrong) + " wrong, " + first;
    }

private:
    static std::vector<int64_t> stored(const AttentionSizes &s, int64_t d) {
        if (s.page == 0) {
            return {d, s.keys, s.kv_heads, s.batches};
        }
        return {d, s.page, s.kv_heads, s.batches * s.keys / s.page + 1}; // one page that no table names
    }

    struct Row {
        std::vector<double> p; ///< weights of the keys, which add up to 1 with that of the sink
        double lse = -INFINITY, off = 0;
        bool empty = true;
    };
    Row scores(const AttentionForm &form, int64_t b, int64_t h, int64_t kh, int64_t i) const {
        Row row;
        std::vector<double> s(size_t(sizes.keys), -INFINITY);
        double top = form.sink(h);
        const double scale = 1 / std::sqrt(double(sizes.d));
        for (int64_t j = 0; j < sizes.keys; j++) {
            if (!form.visible(b, i, j)) {
                continue;
            }
            row.empty = false;
            double sum = 0, size = 0;
            auto [key, batch] = form.place(b, j);
            for (int64_t x = 0; x < sizes.d; x++) {
                double product = q.get({x, i, h, b}) * k.get({x, key, kh, batch});
                sum += product;
                size += std::abs(product);
            }
            double score = s[size_t(j)] = form.change(sum * scale, b, h, i, j);
            top = std::max(top, score);
            row.off = std::max(row.off, double(sizes.d + 2) * 0x1p-23 * size * scale +
                                            16 * 0x1p-23 * (std::abs(score) + std::abs(sum * scale) + 1));
        }
        double all = top == -INFINITY ? 0 : std::exp(form.sink(h) - top);
        for (double score : s) {
            row.p.push_back(top == -INFINITY ? 0 : std::exp(score - top));
            all += row.p.back();
        }
        for (double &p : row.p) {
            p = all > 0 ? p / all : 0;
        }
        row.lse = all > 0 ? top + std::log(all) : -INFINITY;
        return row;
    }
};

/// Whole numbers as an argument.
struct Ints {
    std::vector<int32_t> data;
    kiln_view view;
    Ints(std::vector<int32_t> values, std::vector<int64_t> extents) : data(std::move(values)) {
        kiln_view_host(&view, KILN_INT32, data.data(), int(extents.size()), extents.data(), nullptr);
    }
    Ints(const Ints &) = delete;
};

/// The generator `attention` as kiln_add_kernels builds it from schedules/, once a process.
inline LoadedLibrary &attention_library(const char *target, const Params &params) {
    static std::map<std::string, LoadedLibrary> loaded;
    std::string key = target;
    for (const auto &[name, value] : params) {
        key += "|" + name + "=" + value;
    }
    auto it = loaded.find(key);
    if (it == loaded.end()) {
        TemporaryFolder folder;
        BuildRequest request;
        request.generator = "attention";
        request.load = {KILN_BINARY_DIR "/lib/kiln_generators.so"};
        request.params = params;
        request.output_dir = folder.path();
        request.variants =
            choose_schedules("attention", Target::parse(target), {KILN_SOURCE_DIR "/schedules"}, params);
        BuildResult built = build_library(request);
        if (!built.ok) {
            ADD_FAILURE() << key << "\n" << render_all(built.diagnostics, "");
            std::abort();
        }
        it = loaded.emplace(key, LoadedLibrary(built.archive)).first;
    }
    return it->second;
}

/// Calls with buffers in the order of the header; outputs last. Fetches outputs and frees device memory.
inline int call_buffers(LoadedLibrary &lib, const std::vector<halide_buffer_t *> &buffers, size_t outputs) {
    std::vector<void *> arguments(buffers.begin(), buffers.end());
    int status = lib.call(nullptr, arguments.data());
    for (size_t i = buffers.size() - outputs; i < buffers.size(); i++) {
        if (status == KILN_OK && buffers[i]->device != 0) {
            status = lib.copy_to_host(nullptr, buffers[i]);
        }
    }
    for (halide_buffer_t *b : buffers) {
        lib.device_free(nullptr, b);
    }
    return status;
}

} // namespace kiln::test
