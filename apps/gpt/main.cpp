// Text, character by character, from a small language model whose kernels Kiln built.
#include "check.h"
#include "model.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>

namespace {

const char *const usage =
    R"(usage: gpt [option...] [PROMPT]

Continues PROMPT (default: "Ge1:1 In the beginning") in the style of the King James Bible.

  --tokens N           characters to write (200)
  --temperature T      0: always the likeliest character; 1: as likely as the model holds it (0.7)
  --seed N             of the choice among characters (1)
  --target NAME        cpu, opencl or cuda (cpu)
  --type NAME          float32 or bfloat16: weights, cache and what is between kernels (float32)
  --weights FILE       written by train.py (weights.bin beside the program)
  --time               also say how fast it was
  --check FILE         write no text; compare scores with those of PyTorch (reference.bin of this folder)

exit code: 0; 1 after a wrong score or another fault; 2 for a wrong option; 77 where there is no such device
)";

struct Options {
    std::string prompt = "Ge1:1 In the beginning", target = "cpu", type = "float32", weights, reference;
    int tokens = 200;
    double temperature = 0.7;
    unsigned seed = 1;
    bool time = false;
};

/// A file beside the program.
std::string beside_program(const char *name) {
    std::error_code none;
    return (std::filesystem::read_symlink("/proc/self/exe", none).parent_path() / name).string();
}

[[noreturn]] void refuse(const std::string &message) {
    std::fprintf(stderr, "gpt: %s; `gpt --help` lists the options\n", message.c_str());
    std::exit(2);
}

Options options_of(int argc, char **argv) {
    Options o;
    o.weights = beside_program("weights.bin");
    bool prompt = false;
    for (int i = 1; i < argc; i++) {
        const std::string option = argv[i];
        auto value = [&]() -> std::string {
            return i + 1 < argc ? argv[++i] : (refuse("`" + option + "` needs a value"), "");
        };
        auto number = [&](double least, double most) {
            const std::string text = value();
            char *end = nullptr;
            double x = std::strtod(text.c_str(), &end);
            if (text.empty() || *end || !(x >= least && x <= most)) {
                refuse("`" + option + " " + text + "`: not a number from " + std::to_string(int64_t(least)) +
                       " to " + std::to_string(int64_t(most)));
            }
            return x;
        };
        if (option == "--help" || option == "-h") {
            std::fputs(usage, stdout);
            std::exit(0);
        } else if (option == "--tokens") {
            o.tokens = int(number(0, 1e6));
        } else if (option == "--temperature") {
            o.temperature = number(0, 100);
        } else if (option == "--seed") {
            o.seed = unsigned(number(0, 4e9));
        } else if (option == "--target") {
            o.target = value();
        } else if (option == "--type") {
            o.type = value();
        } else if (option == "--weights") {
            o.weights = value();
        } else if (option == "--check") {
            o.reference = value();
        } else if (option == "--time") {
            o.time = true;
        } else if (!option.empty() && option[0] == '-') {
            refuse("there is no option `" + option + "`");
        } else if (prompt) {
            refuse("two prompts: put quotes around one of several words");
        } else {
            o.prompt = option;
            prompt = true;
        }
    }
    if (o.type != "float32" && o.type != "bfloat16") {
        refuse("there is no type `" + o.type + "`: take float32 or bfloat16");
    }
    if (o.prompt.empty()) {
        refuse("the prompt is empty: give it a character at least");
    }
    return o;
}

int32_t choose(const std::vector<float> &scores, double temperature, std::mt19937 &random) {
    const auto best = std::max_element(scores.begin(), scores.end());
    if (temperature == 0) {
        return int32_t(best - scores.begin());
    }
    std::vector<double> weights;
    for (float score : scores) {
        weights.push_back(std::exp(double(score - *best) / temperature));
    }
    return int32_t(std::discrete_distribution<int>(weights.begin(), weights.end())(random));
}

double seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Writes the prompt and what follows. When the model's context is full, it starts again from the latter half of it.
void write(gpt::Model &model, const Options &o) {
    std::vector<int32_t> text = gpt::tokens_of(o.prompt);
    const size_t context = size_t(model.shape().context);
    auto read_latest = [&](size_t most) {
        model.restart();
        return model.append({text.end() - std::ptrdiff_t(std::min(text.size(), most)), text.end()});
    };
    if (o.time) {
        read_latest(context - 1); // a device compiles at the first call
        model.append({text.back()});
    }
    std::printf("%s", o.prompt.c_str());
    std::mt19937 random(o.seed);
    double begin = seconds();
    std::vector<float> scores = read_latest(context - 1);
    const double reading = seconds() - begin;
    const int64_t read = model.length();
    begin = seconds();
    for (int i = 0; i < o.tokens; i++) {
        text.push_back(choose(scores, o.temperature, random));
        std::printf("%s", gpt::text_of({text.back()}).c_str());
        std::fflush(stdout);
        if (i + 1 < o.tokens) {
            scores =
                model.length() < int64_t(context) ? model.append({text.back()}) : read_latest(context / 2);
        }
    }
    const double writing = seconds() - begin;
    std::printf("\n");
    if (o.time) {
        std::fprintf(stderr,
                     "read %lld characters in %.2f ms (%.0f a second), wrote %d in %.1f ms (%.0f a second)\n",
                     static_cast<long long>(read), reading * 1e3, double(read) / reading, o.tokens,
                     writing * 1e3, o.tokens / writing);
    }
}

} // namespace

int main(int argc, char **argv) {
    const Options o = options_of(argc, argv);
    try {
        const kiln_type type = o.type == "bfloat16" ? KILN_BFLOAT16 : KILN_FLOAT32;
        gpt::Model model(o.weights, gpt::device_of(o.target), type);
        if (!o.reference.empty()) {
            std::printf("%s %s: ", o.target.c_str(), o.type.c_str());
            return gpt::check(model, type, o.reference) ? 0 : 1;
        }
        write(model, o);
        return 0;
    } catch (const gpt::NoDevice &e) {
        std::fprintf(stderr, "gpt: %s\n", e.what());
        return 77;
    } catch (const gpt::Error &e) {
        std::fprintf(stderr, "gpt: %s\n", e.what());
        return 1;
    }
}
