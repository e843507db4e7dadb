#include "dsl/lower/Sha256.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>

namespace kiln {

namespace {

/// The first 32 bits of the fractional part of the `root`-th root of the n-th prime: the standard's constants.
template<size_t N>
std::array<uint32_t, N> prime_roots(int root) {
    std::array<uint32_t, N> out{};
    size_t found = 0;
    for (uint32_t candidate = 2; found < N; candidate++) {
        bool prime = true;
        for (uint32_t d = 2; d * d <= candidate; d++) {
            prime &= candidate % d != 0;
        }
        if (prime) {
            long double r = root == 2 ? std::sqrt(static_cast<long double>(candidate))
                                      : std::cbrt(static_cast<long double>(candidate));
            out[found++] = static_cast<uint32_t>((r - std::floor(r)) * 4294967296.0L);
        }
    }
    return out;
}

void block(std::array<uint32_t, 8> &h, const uint8_t *data) {
    static const std::array<uint32_t, 64> k = prime_roots<64>(3);
    std::array<uint32_t, 64> w;
    for (size_t i = 0; i < 16; i++) {
        w[i] = uint32_t(data[4 * i]) << 24 | uint32_t(data[4 * i + 1]) << 16 |
               uint32_t(data[4 * i + 2]) << 8 | data[4 * i + 3];
    }
    for (size_t i = 16; i < 64; i++) {
        uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
        uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    std::array<uint32_t, 8> v = h;
    for (size_t i = 0; i < 64; i++) {
        uint32_t s1 = std::rotr(v[4], 6) ^ std::rotr(v[4], 11) ^ std::rotr(v[4], 25);
        uint32_t t1 = v[7] + s1 + ((v[4] & v[5]) ^ (~v[4] & v[6])) + k[i] + w[i];
        uint32_t s0 = std::rotr(v[0], 2) ^ std::rotr(v[0], 13) ^ std::rotr(v[0], 22);
        uint32_t t2 = s0 + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        v = {t1 + t2, v[0], v[1], v[2], v[3] + t1, v[4], v[5], v[6]};
    }
    for (size_t i = 0; i < 8; i++) {
        h[i] += v[i];
    }
}

} // namespace

std::string sha256(std::string_view data) {
    std::array<uint32_t, 8> h = prime_roots<8>(2);
    std::string padded(data);
    padded += '\x80';
    padded.append((120 - padded.size() % 64) % 64, '\0');
    for (int shift = 56; shift >= 0; shift -= 8) {
        padded += static_cast<char>(uint64_t(data.size()) * 8 >> shift & 0xff);
    }
    for (size_t i = 0; i < padded.size(); i += 64) {
        block(h, reinterpret_cast<const uint8_t *>(padded.data()) + i);
    }
    std::string out;
    for (uint32_t word : h) {
        out += fmt::format("{:08x}", word);
    }
    return out;
}

} // namespace kiln
