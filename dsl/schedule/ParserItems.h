/** \file
 * The lines at the head of a schedule (op, target, knob, require), recovery and comments. Only for the parser.
 */
#pragma once

#include "dsl/schedule/ParserBase.h"

#include <set>

namespace kiln {

class ItemParser : public ParserBase {
public:
    using ParserBase::ParserBase;

protected:
    void op_item(Schedule &out);
    void target_item(Schedule &out);
    void knob_items(Schedule &out);
    void require_items(Schedule &out);

    /// An item's word, and not a Func of that name.
    bool is_item(const char *word) const;
    /// Goes past the faulty statement that began at token `start`: after its `;`, or up to the `}` that closes the schedule, or up to what looks
    /// like the start of another statement or schedule.
    void recover(size_t start);
    /// Comments since they were last collected, up to the next token.
    std::vector<std::string> comments_above();
    /// The comment on the line of the last token, after it.
    std::string comment_beside();
    bool too_many() const { return diagnostics.size() >= max_reports; }

private:
    std::set<int64_t> values_seen;

    bool is_target(const std::string &text, Span span);
    bool target_feature(TargetPattern &pattern);
    std::optional<Knob> knob();
    bool knob_value(Knob &knob);
    std::optional<Node> constant();
};

} // namespace kiln
