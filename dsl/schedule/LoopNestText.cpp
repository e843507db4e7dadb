#include "dsl/schedule/LoopNest.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln {

namespace {

class Printer {
public:
    explicit Printer(const LoopNest &nest) : nest(nest) {}

    std::string run() {
        for (const FuncNest &f : nest.funcs) {
            if (f.compute.kind == NestLevel::Kind::Root) {
                func(f, 0);
            }
        }
        return out;
    }

private:
    const LoopNest &nest;
    std::string out;

    void line(int indent, const std::string &text) {
        out += std::string(2 * static_cast<size_t>(indent), ' ') + text + "\n";
    }

    std::string header(const FuncNest &f) const {
        std::string text = "produce " + f.name;
        if (!f.store.same_place(f.compute)) {
            text += ", stored at " + f.store.str();
        }
        if (f.memory != "Auto") {
            text += " in " + f.memory;
        }
        if (f.async_span.line > 0) {
            text += ", async";
        }
        if (auto bytes = f.stored_bytes(); bytes && !f.is_output) {
            text += fmt::format(", {} bytes", *bytes);
        }
        return text + ":";
    }

    void func(const FuncNest &f, int indent) {
        line(indent, header(f));
        for (const StageNest &stage : f.stages) {
            this->stage(f, stage, indent + 1);
        }
    }

    void stage(const FuncNest &f, const StageNest &stage, int indent) {
        for (const StageNest &special : stage.specializations) {
            line(indent, fmt::format("if {}:", special.conditions.back()));
            this->stage(f, special, indent + 1);
        }
        if (!stage.specializations.empty()) {
            line(indent, "otherwise:");
            indent++;
        }
        if (stage.atomic) {
            line(indent, "atomic:");
            indent++;
        }
        for (int i = static_cast<int>(stage.loops.size()); i-- > 0;) {
            const Loop &loop = stage.loops[i];
            std::string kind = loop.kind == LoopKind::Serial ? "for" : loop_kind_name(loop.kind);
            line(indent++, fmt::format("{} {} in {}:", kind, loop.name,
                                       loop.extent ? std::to_string(*loop.extent) : loop.extent_text));
            for (const FuncNest &inner : nest.funcs) {
                bool here = inner.compute.kind == NestLevel::Kind::At && inner.compute.func == f.name &&
                            inner.compute.update == stage.update && inner.compute.loop == loop.name;
                if (here) {
                    func(inner, indent);
                }
            }
        }
        line(indent, fmt::format("{}(…) = …", stage.name()));
    }
};

} // namespace

std::string LoopNest::str() const {
    return Printer(*this).run();
}

} // namespace kiln
