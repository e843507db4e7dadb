#include "model.h"

#include "kernels.h"

#include <cmath>
#include <cstring>
#include <fstream>

namespace gpt {

namespace {

/// Reads the file from its beginning on; throws Error where it ends too early.
class Weights {
public:
    explicit Weights(const std::string &file) : name_(file), in_(file, std::ios::binary) {
        if (!in_) {
            throw Error("cannot open the weights `" + file + "`: name them with --weights");
        }
        if (std::string(take<char>(8).data(), 8) != "KILNGPT1") {
            throw Error("`" + file + "` holds no weights of this program (train.py writes them)");
        }
    }
    template<typename T>
    std::vector<T> take(size_t count) {
        std::vector<T> values(count);
        if (!in_.read(reinterpret_cast<char *>(values.data()), std::streamsize(count * sizeof(T)))) {
            throw Error("`" + name_ + "` ends too early");
        }
        return values;
    }
    Shape shape() {
        Shape s;
        std::memcpy(&s, take<char>(sizeof(Shape)).data(), sizeof(Shape));
        return s;
    }
    /// A tensor of bfloat16, widened.
    std::vector<float> tensor(int64_t count) {
        std::vector<float> values;
        for (uint16_t half : take<uint16_t>(size_t(count))) {
            uint32_t bits = uint32_t(half) << 16;
            float value;
            std::memcpy(&value, &bits, 4);
            values.push_back(value);
        }
        return values;
    }

private:
    std::string name_;
    std::ifstream in_;
};

std::unique_ptr<Tensor> filled(Device device, kiln_type type, const std::vector<float> &values) {
    auto tensor = std::make_unique<Tensor>(device, type, int64_t(values.size()));
    tensor->set(values);
    return tensor;
}

/// turns(c, 0, p) and turns(c, 1, p): cosine and sine of p · rope^(-2c / D).
std::vector<float> turns_of(const Shape &s) {
    std::vector<float> turns;
    for (int p = 0; p < s.context; p++) {
        for (bool sine : {false, true}) {
            for (int c = 0; c < s.head / 2; c++) {
                double angle = p * std::pow(double(s.rope), -2.0 * c / s.head);
                turns.push_back(float(sine ? std::sin(angle) : std::cos(angle)));
            }
        }
    }
    return turns;
}

} // namespace

struct Model::Layer {
    std::unique_ptr<Tensor> attention_norm, q, k, v, o, mlp_norm, gate, up, down;
    std::unique_ptr<Tensor> keys, values; ///< the cache: (c, head, position), c innermost
};

Model::Model(const std::string &weights_file, Device device, kiln_type type)
    : device_(device), type_(type), kernels_(kernels_of(type)) {
    Weights file(weights_file);
    const Shape &s = shape_ = file.shape();
    auto weight = [&](int64_t count) { return filled(device, type, file.tensor(count)); };
    auto memory = [&](int64_t count) { return std::make_unique<Tensor>(device, type, count); };
    const int64_t q = s.heads * s.head, kv = s.kv_heads * s.head, n = s.width, rows = s.context;
    embedding_ = weight(s.vocabulary * n);
    for (int i = 0; i < s.layers; i++) {
        auto layer = std::make_unique<Layer>();
        layer->attention_norm = weight(n);
        layer->q = weight(q * n);
        layer->k = weight(kv * n);
        layer->v = weight(kv * n);
        layer->o = weight(n * q);
        layer->mlp_norm = weight(n);
        layer->gate = weight(s.hidden * n);
        layer->up = weight(s.hidden * n);
        layer->down = weight(n * s.hidden);
        layer->keys = memory(kv * rows);
        layer->values = memory(kv * rows);
        layers_.push_back(std::move(layer));
    }
    last_norm_ = weight(n);
    turns_ = filled(device, KILN_FLOAT32, turns_of(s));
    tokens_ = std::make_unique<Tensor>(device, KILN_INT32, rows);
    scores_ = std::make_unique<Tensor>(device, KILN_FLOAT32, s.vocabulary * rows);
    score_ = std::make_unique<Tensor>(device, KILN_FLOAT32, s.vocabulary);
    x_ = memory(n * rows);
    y_ = memory(n * rows);
    h_ = memory(n * rows);
    q_ = memory(q * rows);
    turned_ = memory(q * rows);
    attended_ = memory(q * rows);
    hidden_ = memory(s.hidden * rows);
}

Model::~Model() = default;

/// From h_, normalized, to attended_; keys and values of the new tokens go to the end of the cache.
void Model::attend(const Layer &layer, int64_t count) {
    const Shape &s = shape_;
    const int64_t n = s.width, d = s.head, q = s.heads * d, kv = s.kv_heads * d, end = length_ + count;
    // A row of all heads beside each other, as products write it, read head by head.
    auto heads = [&](const Tensor &t, int64_t number, int64_t rows, int64_t from = 0) {
        return t.view({d, rows, number}, {1, number * d, d}, from * number * d);
    };
    auto batch = [&](const Tensor &t, int64_t number, int64_t rows) {
        return t.view({d, rows, number, 1}, {1, number * d, d, number * d * rows});
    };
    auto h = h_->view({n, count}), turns = turns_->view({d / 2, 2, s.context});
    must(kernels_.product(nullptr, *h, *layer.v->view({kv, n}),
                          *layer.values->view({kv, count}, {}, length_ * kv)),
         "values");
    must(kernels_.product(nullptr, *h, *layer.k->view({kv, n}), *q_->view({kv, count})), "keys");
    must(kernels_.rotate(nullptr, *heads(*q_, s.kv_heads, count), *turns, int32_t(length_),
                         *heads(*layer.keys, s.kv_heads, count, length_)),
         "the positions of keys");
    must(kernels_.product(nullptr, *h, *layer.q->view({q, n}), *q_->view({q, count})), "queries");
    must(kernels_.rotate(nullptr, *heads(*q_, s.heads, count), *turns, int32_t(length_),
                         *heads(*turned_, s.heads, count)),
         "the positions of queries");
    // The mask is aligned at the ends: the last query sees all keys, whether it is alone or after others.
    must(kernels_.attention(nullptr, *batch(*turned_, s.heads, count), *batch(*layer.keys, s.kv_heads, end),
                            *batch(*layer.values, s.kv_heads, end), *batch(*attended_, s.heads, count)),
         "attention");
}

std::vector<float> Model::append(const std::vector<int32_t> &tokens, bool after_each) {
    const Shape &s = shape_;
    const int64_t n = s.width, q = s.heads * s.head, count = int64_t(tokens.size());
    if (count == 0 || length_ + count > s.context) {
        throw Error(std::to_string(count) + " characters after " + std::to_string(length_) +
                    ": the model sees 1 to " + std::to_string(s.context) + " in all");
    }
    tokens_->set(tokens);
    auto x = x_->view({n, count}), y = y_->view({n, count}), h = h_->view({n, count});
    auto hidden = hidden_->view({s.hidden, count});
    must(kernels_.embed(nullptr, *embedding_->view({n, s.vocabulary}), *tokens_->view({count}), *x),
         "embedding");
    for (auto &layer : layers_) {
        must(kernels_.norm(nullptr, *x, *layer->attention_norm->view({n}), s.eps, *h), "a norm");
        attend(*layer, count);
        must(
            kernels_.product_residual(nullptr, *attended_->view({q, count}), *layer->o->view({n, q}), *x, *y),
            "attention's product");
        must(kernels_.norm(nullptr, *y, *layer->mlp_norm->view({n}), s.eps, *h), "a norm");
        must(kernels_.gated(nullptr, *h, *layer->gate->view({s.hidden, n}), *layer->up->view({s.hidden, n}),
                            *hidden),
             "gate and up");
        must(kernels_.product_residual(nullptr, *hidden, *layer->down->view({n, s.hidden}), *y, *x), "down");
    }
    must(kernels_.norm(nullptr, *x, *last_norm_->view({n}), s.eps, *h), "the last norm");
    auto table = embedding_->view({n, s.vocabulary});
    length_ += count;
    if (after_each) {
        must(kernels_.scores(nullptr, *h, *table, *scores_->view({s.vocabulary, count})), "scores");
        return scores_->get(s.vocabulary * count);
    }
    must(kernels_.scores(nullptr, *h_->view({n, 1}, {}, (count - 1) * n), *table,
                         *score_->view({s.vocabulary, 1})),
         "scores");
    return score_->get(s.vocabulary);
}

std::vector<int32_t> tokens_of(const std::string &text) {
    std::vector<int32_t> tokens;
    for (char c : text) {
        if (c != '\n' && (c < 32 || c > 126)) {
            throw Error("the model knows printable ASCII and line ends only");
        }
        tokens.push_back(c == '\n' ? 95 : c - 32);
    }
    return tokens;
}

std::string text_of(const std::vector<int32_t> &tokens) {
    std::string text;
    for (int32_t token : tokens) {
        text += token == 95 ? '\n' : char(token + 32);
    }
    return text;
}

} // namespace gpt
