// Runs a libFuzzer entry on mutations of the repository's schedules, where there is no libFuzzer.
#include "tests/support/golden.h"

#include <chrono>
#include <cstdio>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

namespace kiln::test {
namespace {

namespace fs = std::filesystem;

long long setting(const char *name, long long fallback) {
    const char *text = std::getenv(name);
    return text ? std::atoll(text) : fallback;
}

std::vector<std::string> corpus() {
    std::vector<fs::path> paths;
    for (const char *folder : {"tests", "schedules", "apps"}) {
        fs::path root = fs::path(KILN_SOURCE_DIR) / folder;
        if (!fs::exists(root)) {
            continue;
        }
        for (const auto &entry : fs::recursive_directory_iterator(root)) {
            if (entry.path().extension() == ".sched" && entry.file_size() < 20000) {
                paths.push_back(entry.path());
            }
        }
    }
    std::sort(paths.begin(), paths.end());
    std::vector<std::string> out;
    for (const fs::path &path : paths) {
        out.push_back(read_file(path));
    }
    return out;
}

/// What the language is made of, and what breaks parsers.
const char *const words[] = {"schedule",
                             "op",
                             "target",
                             "knob",
                             "require",
                             "macro",
                             "in",
                             "update",
                             "step",
                             "..",
                             "{",
                             "}",
                             "(",
                             ")",
                             ",",
                             ";",
                             ".",
                             "=",
                             "==",
                             "<=",
                             "&&",
                             "||",
                             "-",
                             "!",
                             "/",
                             "%",
                             "::",
                             "\"",
                             "\\",
                             "//",
                             "/*",
                             "\r\n",
                             "\n",
                             "\t",
                             "0",
                             "1.5",
                             "0x7f",
                             "sm >= 80",
                             "cuda",
                             "cpu avx2",
                             ".split(",
                             "x",
                             "rfactor",
                             "{{k, u}}",
                             "9223372036854775807",
                             "-9223372036854775807",
                             "\xff",
                             "\xc3\xa9",
                             "\xed\xa0\x80",
                             "$",
                             "@",
                             "#",
                             "e9",
                             ".specialize(n > 1)",
                             ".tile("};

class Mutator {
public:
    Mutator(const std::vector<std::string> &corpus, uint64_t seed) : corpus(corpus), random(seed) {}

    std::string run() {
        std::string text = corpus[pick(corpus.size())];
        for (size_t i = 0, n = 1 + pick(6); i < n && text.size() < 40000; i++) {
            mutate(text);
        }
        return text;
    }

private:
    const std::vector<std::string> &corpus;
    std::mt19937_64 random;

    size_t pick(size_t n) { return n == 0 ? 0 : static_cast<size_t>(random() % n); }

    void mutate(std::string &text) {
        size_t at = pick(text.size() + 1), length = pick(1 + std::min<size_t>(text.size() - at, 40));
        switch (pick(8)) {
        case 0:
            text.erase(at, length);
            break;
        case 1:
            text.insert(at, words[pick(std::size(words))]);
            break;
        case 2:
            text.replace(at, length, words[pick(std::size(words))]);
            break;
        case 3:
            text.insert(pick(text.size() + 1), text.substr(at, length));
            break;
        case 4:
            if (at < text.size()) {
                text[at] = static_cast<char>(random());
            }
            break;
        case 5: {
            const std::string &other = corpus[pick(corpus.size())];
            size_t from = pick(other.size() + 1);
            text.insert(at, other.substr(from, pick(200)));
            break;
        }
        case 6: {
            // Deep and long: what a recursive parser must bound.
            std::string word = words[pick(std::size(words))], many;
            for (size_t i = 0, n = pick(400); i < n; i++) {
                many += word;
            }
            text.insert(at, many);
            break;
        }
        default:
            text.resize(at);
        }
    }
};

TEST(Fuzz, mutations_of_the_corpus) {
    std::vector<std::string> inputs = corpus();
    ASSERT_GE(inputs.size(), 40u);
    auto seed = static_cast<uint64_t>(setting("KILN_FUZZ_SEED", 1));
    long long only = setting("KILN_FUZZ_ITERATION", -1);
    double seconds = static_cast<double>(setting("KILN_FUZZ_SECONDS", 5));
    std::printf("KILN_FUZZ_SEED=%llu\n", static_cast<unsigned long long>(seed));
    fs::path last = fs::path(KILN_BINARY_DIR) / "fuzz_last_input";
    auto start = std::chrono::steady_clock::now();
    auto elapsed = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    long long i = only < 0 ? 0 : only;
    for (; only < 0 ? elapsed() < seconds : i == only; i++) {
        std::string text = Mutator(inputs, seed * 1000003 + static_cast<uint64_t>(i)).run();
        std::ofstream(last, std::ios::binary)
            << "// KILN_FUZZ_SEED=" << seed << " KILN_FUZZ_ITERATION=" << i << "\n"
            << text;
        LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t *>(text.data()), text.size());
    }
    std::printf("%lld inputs in %.1f s\n", i, elapsed());
    fs::remove(last);
}

} // namespace
} // namespace kiln::test
