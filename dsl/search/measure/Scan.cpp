#include "dsl/search/measure/Scan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>

namespace kiln::search {

namespace {

/// float16 by its bits; the library's conversion is too slow for whole outputs.
const std::vector<float> &half_table() {
    static const std::vector<float> table = [] {
        std::vector<float> t(65536);
        for (uint32_t i = 0; i < t.size(); i++) {
            t[i] = static_cast<float>(Halide::float16_t::make_from_bits(static_cast<uint16_t>(i)));
        }
        return t;
    }();
    return table;
}

struct Row {
    const uint8_t *ours, *theirs;
    int64_t count;
};

/// Calls `suspect(x, how far)` for elements of a row.
using Suspect = std::function<void(int64_t, double)>;

template<typename T, typename Convert>
void scan_floats(const Row &row, T poison, double distance, const Convert &convert, const Suspect &suspect) {
    for (int64_t x = 0; x < row.count; x++) {
        T bits;
        std::memcpy(&bits, row.ours + x * sizeof(T), sizeof(T));
        if (bits == poison) {
            suspect(x, INFINITY);
            continue;
        }
        if (!row.theirs) {
            continue;
        }
        T other;
        std::memcpy(&other, row.theirs + x * sizeof(T), sizeof(T));
        if (bits == other) {
            continue;
        }
        double a = convert(bits), b = convert(other);
        double apart = std::abs(a - b);
        if (apart <= distance || (std::isnan(a) && std::isnan(b))) {
            continue;
        }
        suspect(x, std::isnan(apart) ? INFINITY : apart);
    }
}

template<typename T>
void scan_integers(const Row &row, const Suspect &suspect) {
    constexpr T poison = static_cast<T>(0xa5a5a5a5a5a5a5a5ull);
    for (int64_t x = 0; x < row.count; x++) {
        T a, b = poison;
        std::memcpy(&a, row.ours + x * sizeof(T), sizeof(T));
        if (row.theirs) {
            std::memcpy(&b, row.theirs + x * sizeof(T), sizeof(T));
        }
        // Without the incumbent's result poison may be a right answer: the reference tells.
        if (row.theirs ? a != b : a == poison) {
            suspect(x, 1);
        }
    }
}

void scan_row(const Row &row, const halide_type_t &type, double distance, const Suspect &suspect) {
    if (type.code == halide_type_bfloat) {
        scan_floats<uint16_t>(
            row, 0x7fe5, distance,
            [](uint16_t bits) {
                uint32_t wide = uint32_t(bits) << 16;
                float f;
                std::memcpy(&f, &wide, 4);
                return double(f);
            },
            suspect);
    } else if (type.code == halide_type_float && type.bits == 16) {
        const std::vector<float> &table = half_table();
        scan_floats<uint16_t>(
            row, 0x7fa5, distance, [&](uint16_t bits) { return double(table[bits]); }, suspect);
    } else if (type.code == halide_type_float && type.bits == 32) {
        scan_floats<uint32_t>(
            row, 0x7fe5a5a5, distance,
            [](uint32_t bits) {
                float f;
                std::memcpy(&f, &bits, 4);
                return double(f);
            },
            suspect);
    } else if (type.code == halide_type_float) {
        scan_floats<uint64_t>(
            row, 0x7ff8a5a5a5a5a5a5ull, distance,
            [](uint64_t bits) {
                double f;
                std::memcpy(&f, &bits, 8);
                return f;
            },
            suspect);
    } else if (type.bytes() == 1) {
        scan_integers<uint8_t>(row, suspect);
    } else if (type.bytes() == 2) {
        scan_integers<uint16_t>(row, suspect);
    } else if (type.bytes() == 4) {
        scan_integers<uint32_t>(row, suspect);
    } else {
        scan_integers<uint64_t>(row, suspect);
    }
}

struct Found {
    double apart;
    std::vector<int> point;
};

} // namespace

ScanResult scan_outputs(const ScanRequest &request) {
    ScanResult result;
    const halide_buffer_t &b = *request.ours;
    int rank = b.dimensions;
    int64_t width = rank ? b.dim[0].extent : 1, rows = 1;
    for (int d = 1; d < rank; d++) {
        rows *= b.dim[d].extent;
    }
    if (width == 0 || rows == 0) {
        return result;
    }
    int64_t wanted = std::clamp<int64_t>(request.most / width, 1, rows);
    std::mt19937_64 rng(request.seed);
    std::vector<Found> found;
    std::vector<int> at(static_cast<size_t>(rank));
    for (int64_t i = 0; i < wanted; i++) {
        // Stratified: one row of each of `wanted` equal parts.
        int64_t first = rows * i / wanted, last = rows * (i + 1) / wanted;
        int64_t index =
            first + static_cast<int64_t>(rng() % static_cast<uint64_t>(std::max<int64_t>(last - first, 1)));
        int64_t offset = 0, rest = index;
        for (int d = 1; d < rank; d++) {
            at[d] = static_cast<int>(rest % b.dim[d].extent);
            rest /= b.dim[d].extent;
            offset += int64_t(at[d]) * b.dim[d].stride;
        }
        offset *= b.type.bytes();
        Row row = {b.host + offset, request.theirs ? request.theirs->host + offset : nullptr, width};
        scan_row(row, b.type, request.distance, [&](int64_t x, double apart) {
            result.suspicious++;
            if (found.size() < request.most_suspects) {
                if (rank) {
                    at[0] = static_cast<int>(x);
                }
                found.push_back({apart, at});
                return;
            }
            // The first half stays, the other half holds the furthest.
            auto least = std::min_element(found.begin() + static_cast<long>(found.size() / 2), found.end(),
                                          [](const Found &l, const Found &r) { return l.apart < r.apart; });
            if (apart > least->apart) {
                at[0] = static_cast<int>(x);
                *least = {apart, at};
            }
        });
        result.scanned += width;
    }
    for (Found &f : found) {
        result.suspects.push_back(std::move(f.point));
    }
    return result;
}

} // namespace kiln::search
