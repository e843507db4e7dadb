#include "dsl/search/database/Facts.h"

#include "dsl/lower/Legalize.h"
#include "dsl/lower/Sha256.h"
#include "dsl/lower/Tools.h"
#include "dsl/schedule/apply/Describe.h"
#include "dsl/tile/emit/NvrtcVersion.h"

#include <Halide.h>
#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <bit>
#include <fstream>
#include <set>
#include <sstream>

namespace kiln::search {

namespace {

using namespace Halide::Internal;

/// Floating-point constants by their bits: the printer rounds them to six decimals.
class ExactConstants : public IRMutator {
    using IRMutator::visit;
    Halide::Expr visit(const FloatImm *op) override {
        return Variable::make(op->type, fmt::format("{}{}_bits_{:016x}", op->type.is_bfloat() ? "bf" : "f",
                                                    op->type.bits(), std::bit_cast<uint64_t>(op->value)));
    }
};

/// Names without the numbers that make them unique in a process.
class PlainNames : public IRMutator {
    using IRMutator::visit;

    static std::string plain(const std::string &name) {
        // `acc$2` and `k$1$x`: the number goes, the dimension stays.
        std::string out;
        for (size_t i = 0; i < name.size(); i++) {
            if (name[i] == '$' && i + 1 < name.size() &&
                std::isdigit(static_cast<unsigned char>(name[i + 1]))) {
                while (i + 1 < name.size() && std::isdigit(static_cast<unsigned char>(name[i + 1]))) {
                    i++;
                }
                continue;
            }
            out += name[i];
        }
        return out;
    }

    Halide::Expr visit(const Variable *op) override { return Variable::make(op->type, plain(op->name)); }
    Halide::Expr visit(const Call *op) override {
        std::vector<Halide::Expr> args;
        for (const Halide::Expr &a : op->args) {
            args.push_back(mutate(a));
        }
        // As an extern call, which needs no Function behind its name; what kind it was stands in the name.
        return Call::make(op->type,
                          fmt::format("{}#{}#{}", plain(op->name), int(op->call_type), op->value_index), args,
                          Call::PureExtern);
    }
};

std::string text_of(const Halide::Expr &e) {
    if (!e.defined()) {
        return "-";
    }
    std::ostringstream out;
    out << e.type() << " " << PlainNames().mutate(ExactConstants().mutate(e));
    return out.str();
}

void print_definition(const Definition &definition, std::ostringstream &out) {
    for (const Halide::Expr &a : definition.args()) {
        out << "  at " << text_of(a) << "\n";
    }
    for (const Halide::Expr &v : definition.values()) {
        out << "  is " << text_of(v) << "\n";
    }
    if (definition.predicate().defined()) {
        out << "  where " << text_of(definition.predicate()) << "\n";
    }
    for (const ReductionVariable &r : definition.schedule().rvars()) {
        std::string name = text_of(Variable::make(Halide::Int(32), r.var));
        out << "  over " << name << " from " << text_of(r.min) << " extent " << text_of(r.extent) << "\n";
    }
}

/// The start of a file's hash; of no bytes where there is none.
std::string hash_of(const std::filesystem::path &file) {
    std::ifstream in(file, std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    return sha256(bytes).substr(0, 16);
}

/// The version and a hash of libkiln.so: each build of it may compile otherwise.
const std::string &compiler_identity() {
    static const std::string text =
        fmt::format("{} {}", KILN_VERSION, hash_of(kiln_root() / "lib" / "libkiln.so"));
    return text;
}

/// What every library links, and the headers that its entry point is compiled with are part of.
const std::string &runtime_identity() {
    static const std::string text = hash_of(kiln_root() / "lib" / "libkiln_runtime.a");
    return text;
}

} // namespace

std::string algorithm_text(const std::vector<Halide::Func> &outputs) {
    std::ostringstream out;
    std::map<std::string, Halide::Func> funcs = funcs_of(outputs);
    for (const Halide::Func &f : outputs) {
        out << "output " << schedule_name(f.function()) << "\n";
    }
    for (const auto &[name, func] : funcs) {
        const Function &f = func.function();
        out << "func " << name << "(" << fmt::format("{}", fmt::join(f.args(), ", ")) << ")\n";
        if (f.has_extern_definition()) {
            out << "  extern " << f.extern_function_name() << "\n";
            for (const Halide::ExternFuncArgument &a : f.extern_arguments()) {
                out << "  with "
                    << (a.is_expr()          ? text_of(a.expr)
                        : a.is_func()        ? Function(a.func).name()
                        : a.is_image_param() ? a.image_param.name()
                                             : "buffer")
                    << "\n";
            }
            continue;
        }
        if (f.has_pure_definition()) {
            print_definition(f.definition(), out);
        }
        for (const Definition &u : f.updates()) {
            out << " update\n";
            print_definition(u, out);
        }
    }
    return out.str();
}

std::string Facts::key() const {
    return sha256(nlohmann::json(firm).dump());
}

std::string Facts::loose_key() const {
    return sha256(nlohmann::json(loose).dump());
}

std::vector<std::string> differences(const std::map<std::string, std::string> &a,
                                     const std::map<std::string, std::string> &b) {
    std::set<std::string> names;
    for (const auto *facts : {&a, &b}) {
        for (const auto &[name, value] : *facts) {
            names.insert(name);
        }
    }
    std::vector<std::string> out;
    for (const std::string &name : names) {
        auto in_a = a.find(name), in_b = b.find(name);
        std::string left = in_a == a.end() ? "none" : in_a->second;
        std::string right = in_b == b.end() ? "none" : in_b->second;
        if (left != right) {
            out.push_back(fmt::format("{}: {} / {}", name, left, right));
        }
    }
    return out;
}

Facts facts_of(const Problem &problem, int threads) {
    Facts facts;
    std::map<std::string, std::string> &firm = facts.firm, &loose = facts.loose;
    firm["algorithm"] = sha256(algorithm_text(problem.outputs));
    firm["generator"] = problem.generator;
    firm["parameters"] = nlohmann::json(problem.parameters).dump();
    firm["extents"] = nlohmann::json(problem.extents).dump();
    firm["scalars"] = nlohmann::json(problem.scalars).dump();
    nlohmann::json types, strides;
    for (const FuncInfo &f : problem.info.funcs) {
        if (f.is_input || f.is_output) {
            types[f.name] = fmt::format("{}", fmt::join(f.types, ","));
        }
    }
    for (const Halide::Parameter &p : input_parameters(problem.outputs)) {
        if (!p.is_buffer()) {
            types[p.name()] = fmt::format("{}", fmt::streamed(p.type()));
            continue;
        }
        // What the contract assumes of each dimension: `_` where nothing.
        nlohmann::json &list = strides[p.name()];
        list = nlohmann::json::array();
        for (int d = 0; d < p.dimensions(); d++) {
            list.push_back(fmt::format("{}:{}:{}", text_of(p.min_constraint(d)),
                                       text_of(p.extent_constraint(d)), text_of(p.stride_constraint(d))));
        }
        list.push_back(p.host_alignment());
    }
    for (const Halide::Func &output : problem.outputs) {
        for (const Halide::Parameter &p : output.function().output_buffers()) {
            nlohmann::json &list = strides[schedule_name(output.function())];
            for (int d = 0; d < p.dimensions(); d++) {
                list.push_back(fmt::format("{}:{}:{}", text_of(p.min_constraint(d)),
                                           text_of(p.extent_constraint(d)), text_of(p.stride_constraint(d))));
            }
            list.push_back(p.host_alignment());
        }
    }
    firm["types"] = types.dump();
    firm["strides"] = strides.dump();
    firm["target"] = problem.target.str();
    const Device &device = problem.device;
    firm["device"] = device.name;
    firm["units"] = std::to_string(device.units);
    firm["memory"] = std::to_string(device.memory_bytes);
    firm["cache"] = std::to_string(device.cache_bytes);
    firm["limits"] = to_json(device.limits).dump();
    firm["threads"] = std::to_string(threads);
    loose["driver"] = device.driver;
    loose["platform"] = device.platform;
    loose["halide"] =
        fmt::format("{}.{}.{}", HALIDE_VERSION_MAJOR, HALIDE_VERSION_MINOR, HALIDE_VERSION_PATCH);
    loose["kiln"] = compiler_identity();
    loose["runtime"] = runtime_identity();
    if (problem.target.backend == Backend::Cuda) {
        loose["nvrtc"] = tile::nvrtc_version();
    }
    return facts;
}

} // namespace kiln::search
