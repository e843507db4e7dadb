#include "dsl/tile/interpret/Interpret.h"
#include "dsl/tile/interpret/Values.h"

namespace kiln::tile {

namespace {

std::vector<int64_t> dense_strides(const std::vector<int64_t> &extents) {
    std::vector<int64_t> strides;
    int64_t n = 1;
    for (int64_t e : extents) {
        strides.push_back(n);
        n *= e;
    }
    return strides;
}

} // namespace

Array::Array(Halide::Type t, std::vector<int64_t> e) : Array(t, e, dense_strides(e)) {}

Array::Array(Halide::Type t, std::vector<int64_t> e, std::vector<int64_t> s)
    : type(t), extents(std::move(e)), strides(std::move(s)) {
    int64_t last = 0;
    for (size_t d = 0; d < extents.size(); d++) {
        last += std::max<int64_t>(0, extents[d] - 1) * strides[d];
    }
    bytes.resize(size() == 0 ? 0 : static_cast<size_t>((last + 1) * type.bytes()));
}

int64_t Array::size() const {
    int64_t n = 1;
    for (int64_t e : extents) {
        n *= e;
    }
    return n;
}

bool Array::contains(const std::vector<int64_t> &index) const {
    for (size_t d = 0; d < extents.size(); d++) {
        if (index[d] < 0 || index[d] >= extents[d]) {
            return false;
        }
    }
    return true;
}

int64_t Array::offset(const std::vector<int64_t> &index) const {
    int64_t at = 0;
    for (size_t d = 0; d < strides.size(); d++) {
        at += index[d] * strides[d];
    }
    return at;
}

double Array::get(int64_t at) const {
    return load_element(type, bytes.data() + at * type.bytes());
}

void Array::set(int64_t at, double value) {
    store_element(type, bytes.data() + at * type.bytes(), value);
}

void Array::each(const std::function<void(int64_t)> &f) const {
    const int64_t n = size();
    std::vector<int64_t> index(extents.size());
    for (int64_t i = 0; i < n; i++) {
        f(offset(index));
        for (size_t d = 0; d < index.size() && ++index[d] == extents[d]; d++) {
            index[d] = 0;
        }
    }
}

} // namespace kiln::tile
