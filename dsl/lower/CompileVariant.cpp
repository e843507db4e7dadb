#include "dsl/lower/CompileVariant.h"

#include "dsl/generator/Create.h"
#include "dsl/generator/Load.h"
#include "dsl/generator/Params.h"
#include "dsl/lower/FuseMultiplyAdd.h"
#include "dsl/lower/HostFloat16.h"
#include "dsl/lower/Legalize.h"
#include "dsl/lower/Rebuild.h"
#include "dsl/lower/ScheduleVariant.h"
#include "dsl/lower/TileShim.h"
#include "dsl/lower/WidenAccesses.h"
#include "dsl/lower/Workspace.h"

#include "dsl/support/Files.h"

#include <Halide.h>
#include <fmt/format.h>

#include <sstream>

namespace kiln {

namespace {

using Halide::Internal::AbstractGenerator;
using Halide::Internal::ArgInfoDirection;

std::string text_of(const Halide::Expr &e) {
    std::ostringstream out;
    out << e;
    return out.str();
}

/// A constraint as a number where it is one, else as text.
void read_constraint(const Halide::Expr &e, bool &has, int64_t &value, std::string &text) {
    if (!e.defined()) {
        return;
    }
    Halide::Expr simple = Halide::Internal::simplify(e);
    if (auto constant = Halide::Internal::as_const_int(simple)) {
        has = true;
        value = *constant;
    } else {
        text = text_of(simple);
    }
}

std::string type_text(Halide::Type t) {
    if (t.is_bool()) {
        return "bool";
    }
    const char *code = t.is_bfloat() ? "bfloat" : t.is_float() ? "float" : t.is_uint() ? "uint" : "int";
    return t.is_handle() ? "handle" : fmt::format("{}{}", code, t.bits());
}

CompiledArgument describe(const LegalizedArgument &from, const char *kind) {
    CompiledArgument a;
    a.name = from.name;
    a.kind = kind;
    a.type_code = static_cast<int>(from.contract_type.code());
    a.type_bits = from.contract_type.bits();
    a.type = type_text(from.contract_type);
    a.alignment = from.contract_type.bytes();
    const Halide::Parameter &p = from.parameter;
    if (p.defined() && p.is_buffer()) {
        a.alignment = std::max(a.alignment, p.host_alignment());
        for (int d = 0; d < p.dimensions(); d++) {
            CompiledArgument::Dimension dim;
            read_constraint(p.min_constraint(d), dim.has_min, dim.min, dim.min_text);
            read_constraint(p.extent_constraint(d), dim.has_extent, dim.extent, dim.extent_text);
            read_constraint(p.stride_constraint(d), dim.has_stride, dim.stride, dim.stride_text);
            a.dimensions.push_back(std::move(dim));
        }
    } else if (p.defined()) {
        a.scalar_min = p.min_value().defined() ? text_of(p.min_value()) : "";
        a.scalar_max = p.max_value().defined() ? text_of(p.max_value()) : "";
        a.scalar_default = p.default_value().defined() ? text_of(p.default_value()) : "";
    }
    return a;
}

/// What the conditions of a variant let its code rely on.
void promise(const std::vector<VariantCondition> &conditions, LegalizedPipeline &pipeline) {
    for (const VariantCondition &c : conditions) {
        for (std::vector<LegalizedArgument> *list : {&pipeline.inputs, &pipeline.output_args}) {
            for (LegalizedArgument &a : *list) {
                if (a.name != c.argument || !a.parameter.is_buffer() ||
                    (c.what != VariantCondition::What::AlignedTo &&
                     c.what != VariantCondition::What::DeviceAlignedTo &&
                     c.dimension >= a.parameter.dimensions())) {
                    continue;
                }
                Halide::Parameter &p = a.parameter;
                auto of_call = [&](const char *what) {
                    return Halide::Internal::Variable::make(
                        Halide::Int(32), fmt::format("{}.{}.{}", p.name(), what, c.dimension), p);
                };
                Halide::Expr value = static_cast<int32_t>(c.value);
                switch (c.what) {
                case VariantCondition::What::AlignedTo:
                    p.set_host_alignment(static_cast<int>(c.value));
                    break;
                case VariantCondition::What::ExtentMultipleOf:
                    p.set_extent_constraint(c.dimension, (of_call("extent") / value) * value);
                    break;
                case VariantCondition::What::StrideMultipleOf:
                    if (!p.stride_constraint(c.dimension).defined()) {
                        p.set_stride_constraint(c.dimension, (of_call("stride") / value) * value);
                    }
                    break;
                case VariantCondition::What::ExtentAtLeast:
                case VariantCondition::What::ExtentAtMost:
                case VariantCondition::What::StrideIs:
                case VariantCondition::What::MinIs:
                case VariantCondition::What::DeviceAlignedTo:
                case VariantCondition::What::BlocksAtMost:
                case VariantCondition::What::DeviceIs:
                case VariantCondition::What::ElementsAtMost:
                case VariantCondition::What::DeviceVector:
                    break; // These choose the variant; Halide has no use for them.
                }
            }
        }
    }
}

std::vector<uint64_t> feature_bits(const Halide::Target &target) {
    std::vector<uint64_t> bits(2);
    for (int f = 0; f < Halide::Target::FeatureEnd; f++) {
        if (target.has_feature(static_cast<Halide::Target::Feature>(f))) {
            bits[static_cast<size_t>(f) / 64] |= uint64_t(1) << (f % 64);
        }
    }
    return bits;
}

/// The pipeline as the generator makes it for the target.
PipelineSource build_pipeline(const CompileJob &job, const Halide::Target &target,
                              std::unique_ptr<AbstractGenerator> &generator) {
    generator = create_generator(job.generator, job.params, target);
    generator->build_pipeline();
    PipelineSource source;
    for (const AbstractGenerator::ArgInfo &info : generator->arginfos()) {
        if (info.dir == ArgInfoDirection::Input) {
            for (const Halide::Parameter &p : generator->input_parameter(info.name)) {
                source.inputs.push_back(p);
            }
        } else {
            for (const Halide::Func &f : generator->output_func(info.name)) {
                source.outputs.push_back(f);
            }
        }
    }
    return source;
}

CompiledTile describe(const TileStage &stage) {
    CompiledTile t;
    t.func = stage.func;
    t.symbol = stage.symbol;
    t.function = stage.kernel.name;
    t.registers = stage.compiled.registers;
    t.spill_bytes = stage.compiled.spill_bytes;
    t.shared_bytes = stage.kernel.shared_bytes;
    t.threads = stage.kernel.threads;
    t.cluster = stage.kernel.cluster;
    t.persistent = stage.kernel.persistent;
    t.launch_ahead = stage.kernel.launch_ahead;
    t.text = stage.kernel.text;
    t.passes = stage.passes;
    t.remarks = stage.remarks;
    return t;
}

/// `y.extent.0` of the arguments of `f`, as code that its body has unpacked them for says it.
class OfArguments : public Halide::Internal::IRMutator {
public:
    explicit OfArguments(const Halide::Internal::LoweredFunc &f) : f_(f) {}
    bool unknown = false;

private:
    using Halide::Internal::IRMutator::visit;
    Halide::Expr visit(const Halide::Internal::Variable *op) override {
        const size_t at = op->name.rfind(".extent.");
        for (const Halide::Internal::LoweredArgument &a : f_.args) {
            if (at != std::string::npos && a.is_buffer() && base_name(a.name) == op->name.substr(0, at)) {
                const Halide::Expr buffer = Halide::Internal::Variable::make(
                    Halide::type_of<halide_buffer_t *>(), a.name + ".buffer");
                return Halide::Internal::Call::make(
                    Halide::Int(32), Halide::Internal::Call::buffer_get_extent,
                    {buffer, std::stoi(op->name.substr(at + 8))}, Halide::Internal::Call::Extern);
            }
        }
        unknown = true;
        return op;
    }
    const Halide::Internal::LoweredFunc &f_;
};

/// What launches of the stages take for themselves: counters of tiles and of parts, workspaces between blocks.
Halide::Expr launch_bytes(const std::vector<TileStage> &stages, const Halide::Internal::LoweredFunc &f,
                          bool &unknown) {
    using Kind = tile::KernelParam::Kind;
    Halide::Expr bytes = Halide::Internal::make_const(Halide::Int(64), 0);
    OfArguments of(f);
    for (const TileStage &stage : stages) {
        for (const tile::KernelParam &p : stage.kernel.params) {
            if (p.kind == Kind::Counter) {
                bytes = bytes + Halide::Internal::make_const(Halide::Int(64), 8);
            } else if (p.kind == Kind::Counters) {
                bytes = bytes + of.mutate(p.value) * 4;
            } else if (p.kind == Kind::Workspace) {
                bytes = bytes + (of.mutate(p.value) + 3) / 4 * 4;
            }
        }
    }
    unknown |= of.unknown;
    return Halide::Internal::simplify(bytes);
}

/// What the library takes of the stages: images beside the object, C text in the reply.
void reply_with(const std::vector<TileStage> &stages, const CompileJob &job, CompileReply &reply) {
    for (const TileStage &stage : stages) {
        write_file_atomic(job.object.parent_path() / (stage.symbol + ".image"), stage.compiled.cubin);
        reply.tiles.push_back(describe(stage));
    }
    if (!stages.empty()) {
        reply.tile_shim = tile_shim_text(stages, job.symbol + "_tiles");
    }
}

/// Halide throws what is not std::exception, and says whose fault it is by the type.
class Reporter : public Halide::CompileTimeErrorReporter {
public:
    void warning(const char *message) override { warnings.push_back(message); }
    [[noreturn]] void error(const char *message) override {
        if (std::string_view(message).find("Internal Error") != std::string_view::npos) {
            throw Halide::InternalError(message);
        }
        throw Halide::CompileError(message);
    }
    std::vector<std::string> warnings;
};

Diagnostic halide_fault(const CompileJob &job, const char *what) {
    Diagnostic d;
    d.code = "K0710";
    std::string text = what;
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) {
        text.pop_back();
    }
    d.message = fmt::format("Halide cannot compile `{}` for `{}`", job.generator, job.variant.target.str());
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        d.notes.push_back(line);
    }
    return d;
}

} // namespace

CompileReply compile_variant(const CompileJob &asked) {
    CompileReply reply;
    CompileJob job = asked;
    static Reporter reporter;
    try {
        load_generators(job.load);
        Halide::set_custom_compile_time_error_reporter(&reporter);
        Halide::Target target(job.variant.target.halide());
        reply.halide_target = target.to_string();
        if (job.variant.target.backend == Backend::Cpu) {
            reply.cpu_features = feature_bits(target);
        }
        std::unique_ptr<AbstractGenerator> defaults = create_generator(job.generator, {}, target);
        defaults->arginfos();
        std::vector<std::string> params;
        for (const ParamInfo &p : generator_params(*defaults)) {
            auto given = job.params.find(p.name);
            reply.params[p.name] = given == job.params.end() ? p.fallback : given->second;
            params.push_back(p.name);
        }
        job = with_algorithm_knobs(std::move(job), params);
        std::unique_ptr<AbstractGenerator> generator;
        PipelineSource source = build_pipeline(job, target, generator);
        LegalizedPipeline pipeline = legalize(source.outputs, source.inputs, target);
        for (const LegalizedArgument &a : pipeline.inputs) {
            reply.arguments.push_back(describe(a, a.parameter.is_buffer() ? "input" : "scalar"));
        }
        for (const LegalizedArgument &a : pipeline.output_args) {
            reply.arguments.push_back(describe(a, "output"));
        }
        // After the contract has been read: what a variant relies on beyond it is its own affair.
        promise(job.variant.conditions, pipeline);
        ScheduledVariant scheduled = schedule_variant(
            job, source, pipeline, [&](const std::map<std::string, StageReplacement> &stages) {
                LegalizeOptions options;
                options.replace = stages;
                LegalizedPipeline fresh = legalize(source.outputs, source.inputs, target, options);
                promise(job.variant.conditions, fresh);
                return fresh;
            });
        reply.diagnostics = scheduled.diagnostics;
        reply.schedule_name = scheduled.name;
        reply.schedule_text = scheduled.text;
        if (has_errors(reply.diagnostics)) {
            return reply;
        }
        reply_with(scheduled.tiles, job, reply);
        reply.conditions = stage_conditions(scheduled.tiles, pipeline);
        if (!job.variant.target.has_wide_addresses()) {
            for (const CompiledArgument &a : reply.arguments) {
                if (a.kind != "scalar") {
                    reply.conditions.push_back(
                        {VariantCondition::What::ElementsAtMost, a.name, 0, INT32_MAX});
                }
            }
        }
        try {
            Halide::Pipeline whole(pipeline.outputs);
            if (target.has_feature(Halide::Target::OpenCL)) {
                whole.add_custom_lowering_pass(fuse_multiply_add());
            }
            if (target.has_feature(Halide::Target::CUDA)) {
                whole.add_custom_lowering_pass(convert_float16_on_host());
                whole.add_custom_lowering_pass(widen_accesses(&reply.device_alignment));
            }
            Halide::Module module = whole.compile_to_module(pipeline.arguments(), job.symbol, target);
            Workspace workspace = count_workspace(module.get_conceptual_stmt());
            for (const Halide::Internal::LoweredFunc &f : module.functions()) {
                if (f.name == job.symbol) {
                    workspace.device = workspace.device + launch_bytes(scheduled.tiles, f, workspace.unknown);
                }
            }
            reply.host_bytes = workspace.unknown ? std::nullopt : workspace.constant_host();
            reply.device_bytes = workspace.unknown ? std::nullopt : workspace.constant_device();
            reply.deterministic = is_deterministic(module.get_conceptual_stmt());
            append_workspace_function(module, job.symbol, job.symbol + "_workspace", workspace);
            module.compile({{Halide::OutputFileType::object, job.object.string()}});
        } catch (const Halide::CompileError &error) {
            std::vector<Diagnostic> placed = scheduled.find_faults();
            reply.diagnostics.insert(reply.diagnostics.end(), placed.begin(), placed.end());
            if (!has_errors(reply.diagnostics)) {
                reply.diagnostics.push_back(halide_fault(job, error.what()));
            }
        }
    } catch (const Error &error) {
        for (Diagnostic d : error.diagnostics) {
            // What the tile compiler refuses stands at no line: of a library's many schedules it is this one.
            if (d.file.empty() && d.code.starts_with("K11")) {
                d.file = job.variant.schedule_file;
            }
            reply.diagnostics.push_back(std::move(d));
        }
    } catch (const Halide::Error &error) {
        reply.diagnostics.push_back(halide_fault(job, error.what()));
    } catch (const std::bad_alloc &) {
        throw;
    } catch (const std::exception &error) {
        reply.diagnostics.push_back(halide_fault(job, error.what()));
    }
    return reply;
}

} // namespace kiln
