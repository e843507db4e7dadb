/** \file
 * Values at integer points: an open-addressing table, for what the evaluator remembers of a Func.
 */
#pragma once

#include "dsl/check/Value.h"

#include <cstddef>
#include <vector>

namespace kiln {

class PointTable {
public:
    /// Points of `rank` coordinates with `width` values each.
    PointTable(int rank, int width) : rank_(rank), width_(width) {}

    /// The values at `point`, or nullptr. Valid until the next insert.
    const Value *find(const int *point) const {
        if (slots_.empty()) {
            return nullptr;
        }
        for (size_t at = hash(point) & mask_;; at = (at + 1) & mask_) {
            uint32_t entry = slots_[at];
            if (entry == 0) {
                return nullptr;
            }
            if (equal(entry - 1, point)) {
                return &values_[(entry - 1) * static_cast<size_t>(width_)];
            }
        }
    }

    /// Room for the values at `point`, which may be there already.
    Value *insert(const int *point) {
        if (const Value *old = find(point)) {
            return const_cast<Value *>(old);
        }
        if ((count_ + 1) * 2 > slots_.size()) {
            grow();
        }
        size_t at = hash(point) & mask_;
        while (slots_[at]) {
            at = (at + 1) & mask_;
        }
        slots_[at] = static_cast<uint32_t>(++count_);
        points_.insert(points_.end(), point, point + rank_);
        values_.resize(count_ * width_);
        return &values_[(count_ - 1) * width_];
    }

    size_t size() const { return count_; }
    size_t bytes() const {
        return slots_.capacity() * 4 + points_.capacity() * sizeof(int) + values_.capacity() * sizeof(Value);
    }
    void clear() {
        slots_ = {};
        points_ = {};
        values_ = {};
        count_ = mask_ = 0;
    }

private:
    int rank_, width_;
    size_t count_ = 0, mask_ = 0;
    std::vector<uint32_t> slots_; ///< index + 1, 0 for empty
    std::vector<int> points_;
    std::vector<Value> values_;

    size_t hash(const int *point) const {
        uint64_t h = 0x9e3779b97f4a7c15ull;
        for (int i = 0; i < rank_; i++) {
            h = (h ^ static_cast<uint32_t>(point[i])) * 0xff51afd7ed558ccdull;
            h ^= h >> 32;
        }
        return h;
    }

    bool equal(size_t entry, const int *point) const {
        for (int i = 0; i < rank_; i++) {
            if (points_[entry * static_cast<size_t>(rank_) + i] != point[i]) {
                return false;
            }
        }
        return true;
    }

    void grow() {
        std::vector<uint32_t> bigger(slots_.empty() ? 16 : slots_.size() * 2);
        mask_ = bigger.size() - 1;
        for (size_t i = 0; i < count_; i++) {
            size_t at = hash(&points_[i * static_cast<size_t>(rank_)]) & mask_;
            while (bigger[at]) {
                at = (at + 1) & mask_;
            }
            bigger[at] = static_cast<uint32_t>(i + 1);
        }
        slots_ = std::move(bigger);
    }
};

} // namespace kiln
