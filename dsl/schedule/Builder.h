// clang-format off
/** \file
 * Schedules written in C++:
 *
 *     kiln::ScheduleBuilder s("gemm_avx2");
 *     s.op("gemm").target("cpu avx2").knob("bm in {64, 128}").require("bm >= 64");
 *     s(y).tile(n, m, no, mo, ni, mi, 16, "bm").parallel(mo).vectorize(ni);
 *     s(x).in(acc).compute_at(s(acc).update(), "ko");
 *     kiln::StageBuilder part = s(acc).update().rfactor(k, u).as("part");
 *     kiln::Schedule schedule = s.schedule();
 *
 * Funcs, Vars and RVars of Halide (anything with a name()) and their names as strings are the same. The methods are
 * those of the registry; what they are given is checked as for text, by canonicalize. Text, this form and the
 * printer's C++ (print_kiln) describe the same value: schedules compare equal.
 */
// clang-format on
#pragma once

#include "dsl/schedule/Schedule.h"

#include <concepts>
#include <string>
#include <vector>

namespace kiln {

class StageBuilder;

/// The name of a Halide object as the schedule language has it: without the `$1` that Halide adds to a second object
/// of one name, and `k$x` of an RDom as `k.x`.
std::string schedule_name(const std::string &halide_name);

template<typename T>
concept HasName = requires(const T &t) {
    { t.name() } -> std::convertible_to<std::string>;
};

/// One argument: an integer, a real, a name, or what expr(), text(), list() and kw() make.
struct BuilderArg {
    Node node;
    explicit BuilderArg(Node node) : node(std::move(node)) {}
    BuilderArg(bool value) : node(Node::name(value ? "true" : "false")) {}
    template<std::integral T>
    BuilderArg(T value) : node(Node::integer(static_cast<int64_t>(value))) {}
    BuilderArg(double value);
    BuilderArg(const char *name) : node(Node::name(name)) {}
    BuilderArg(const std::string &name) : node(Node::name(name)) {}
    BuilderArg(const StageBuilder &stage);
    template<HasName T>
    requires(!std::derived_from<T, StageBuilder>) BuilderArg(const T &object)
        : node(Node::name(schedule_name(object.name()))) {}
};

/// `bm / 2`, `y.extent(x) % 16 == 0`. Throws kiln::Error where that is no expression.
BuilderArg expr(const std::string &expression);
/// A string, for specialize_fail.
BuilderArg text(const std::string &text);
/// `{a, b}`
template<typename... Args>
BuilderArg list(Args &&...args) {
    Node node = Node::list({});
    (node.args.push_back(BuilderArg(std::forward<Args>(args)).node), ...);
    return BuilderArg(std::move(node));
}
/// `factor = 8`
BuilderArg kw(const std::string &name, BuilderArg value);

class ScheduleBuilder;

/// One stage of a Func, and the statement whose chain is being written.
class StageBuilder {
public:
    /// The update definition `index`.
    StageBuilder update(int index = 0) const;

    /// The wrapper for these consumers; for none the global one.
    template<typename... Consumers>
    StageBuilder in(const Consumers &...consumers) const {
        return wrapper({BuilderArg(consumers).node.text...});
    }

    /// Names the Func that rfactor, the call before, makes.
    StageBuilder as(const std::string &name);

    /// A statement without directives: makes a wrapper and leaves it as it is.
    StageBuilder &declare();

    /// Any directive or macro by name.
    template<typename... Args>
    StageBuilder &call(const std::string &name, Args &&...args) {
        return add(name, {BuilderArg(std::forward<Args>(args)).node...});
    }

#define KILN_DIRECTIVE(NAME)                                                                                 \
    template<typename... Args>                                                                               \
    StageBuilder &NAME(Args &&...args) {                                                                     \
        return add(#NAME, {BuilderArg(std::forward<Args>(args)).node...});                                   \
    }
#include "dsl/schedule/Directives.def"
#undef KILN_DIRECTIVE

    const StageRef &stage() const {
        return ref;
    }

private:
    friend class ScheduleBuilder;
    StageBuilder(ScheduleBuilder *owner, StageRef ref) : owner(owner), ref(std::move(ref)) {}
    StageBuilder wrapper(std::vector<std::string> consumers) const;
    StageBuilder &add(const std::string &name, std::vector<Node> args);
    Statement &statement();

    ScheduleBuilder *owner;
    StageRef ref;
    int index = -1; ///< of the statement; -1 before the first call
};

/// See the file comment. Must outlive its StageBuilders.
class ScheduleBuilder {
public:
    explicit ScheduleBuilder(const std::string &name);
    ScheduleBuilder(const ScheduleBuilder &) = delete;
    ScheduleBuilder &operator=(const ScheduleBuilder &) = delete;

    ScheduleBuilder &op(const std::string &generator);
    /// These take what stands after the word in the text form and throw kiln::Error on a fault in it.
    ScheduleBuilder &target(const std::string &pattern);
    ScheduleBuilder &knob(const std::string &knobs);
    ScheduleBuilder &require(const std::string &conditions);
    /// `name(a, b) { … }`
    ScheduleBuilder &macro(const std::string &definition);

    template<typename Func>
    StageBuilder operator()(const Func &func) {
        return stage(BuilderArg(func).node.text);
    }
    /// A macro as a statement.
    template<typename... Args>
    ScheduleBuilder &call(const std::string &macro, Args &&...args) {
        return add(macro, {BuilderArg(std::forward<Args>(args)).node...});
    }

    const Schedule &schedule() const { return value; }

private:
    friend class StageBuilder;
    StageBuilder stage(const std::string &func);
    ScheduleBuilder &add(const std::string &macro, std::vector<Node> args);
    ScheduleBuilder &item(const std::string &text);

    Schedule value;
};

} // namespace kiln
