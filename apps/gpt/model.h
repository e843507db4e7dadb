/** \file
 * The language model: weights from a file, a cache of keys and values, and the scores of the next character. Every number
 * is computed by a kernel that Kiln built. A token's way, where `norm` is a root-mean-square norm:
 *   x = embed(token)
 *   each layer: h = norm(x); q, k = rotate(product(h)); v = product(h); y = x + product(attention(q, cache, cache));
 *               x = y + product(silu(h gate) (h up)) with h = norm(y)
 *   scores = norm(x) embedding^T
 */
#pragma once

#include "tensor.h"

#include <memory>
#include <string>
#include <vector>

namespace gpt {

/// In the order of the file (model.py, `save`).
struct Shape {
    int32_t layers, width, heads, kv_heads, head, hidden, vocabulary, context;
    float eps, rope;
};

/// Printable ASCII from the space on, 0 to 94; a line's end is 95. Throws Error for other characters.
std::vector<int32_t> tokens_of(const std::string &text);
std::string text_of(const std::vector<int32_t> &tokens);

/// The kernels for one type of numbers (kernels.cpp).
struct Kernels;
const Kernels &kernels_of(kiln_type type);

class Model {
public:
    /// `type`: float32 or bfloat16, what is stored of weights, cache and everything between kernels. Throws Error: no such
    /// file, not a file of weights, no such device.
    Model(const std::string &weights_file, Device device, kiln_type type);
    ~Model();

    const Shape &shape() const { return shape_; }
    int64_t length() const { return length_; } ///< characters in the cache

    /// Forgets what is in the cache.
    void restart() { length_ = 0; }
    /// Appends 1 to context - length() tokens. Returns the scores (logits) of what follows: after the last of them, or
    /// after each, one row of `vocabulary` a token. Throws Error where they do not fit.
    std::vector<float> append(const std::vector<int32_t> &tokens, bool after_each = false);

private:
    struct Layer;
    void attend(const Layer &layer, int64_t count);

    Shape shape_;
    Device device_;
    kiln_type type_;
    const Kernels &kernels_;
    int64_t length_ = 0;
    std::unique_ptr<Tensor> embedding_, last_norm_, turns_, tokens_, scores_, score_;
    std::unique_ptr<Tensor> x_, y_, h_, q_, turned_, attended_, hidden_; ///< one row a token
    std::vector<std::unique_ptr<Layer>> layers_;
};

} // namespace gpt
