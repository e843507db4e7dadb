// What the generator `attention` refuses of its parameters: the whole messages.
#include "tests/correctness/cli_run.h"

namespace kiln::test {
namespace {

class AttentionErrors : public CliTest {
protected:
    void expect(const std::string &target, const std::vector<std::string> &params,
                const std::string &message) {
        std::vector<std::string> args = {"build", "attention", "--quiet",  "--target",
                                         target,  "-o",        path("out")};
        for (const std::string &p : params) {
            args.insert(args.end(), {"--param", p});
        }
        CliRun run = kiln(args);
        EXPECT_EQ(run.code, 1);
        EXPECT_EQ(run.err, message);
    }
};

TEST_F(AttentionErrors, K1220PassedOver) {
    expect("cpu", {"window_left=5"},
           "error[K1220]: the parameter window_left=5 has no effect without mask=window\n"
           "   = help: set mask=window, or leave it out\n");
}

TEST_F(AttentionErrors, K1221Negative) {
    expect("cpu", {"mask=prefix", "prefix=-1"},
           "error[K1221]: the parameter prefix=-1 is negative\n"
           "   = help: it is a number of keys\n");
}

TEST_F(AttentionErrors, K1222Contradictions) {
    expect("cpu", {"lengths=documents", "page=8"},
           "error[K1222]: lengths=documents and page=8 give the same key two places\n"
           "   = help: keys in pages belong to a batch: set lengths=keys or lengths=batch\n");
    expect("cpu", {"lengths=documents", "mask=prefix", "prefix=4"},
           "error[K1222]: mask=prefix counts keys from the first of all, lengths=documents from that of a "
           "document\n"
           "   = help: pad the documents to batches (lengths=batch), or write the mask over "
           "kiln::ops::documents in "
           "a generator of your own\n");
}

TEST_F(AttentionErrors, K1223RowsOnAGpu) {
    expect("opencl", {"form=rows"},
           "error[K1223]: the parameter form=rows keeps the scores of a block of queries whole, which a GPU "
           "cannot\n"
           "   = help: leave `form` at auto, or set form=blocks\n");
}

TEST_F(AttentionErrors, K1224Types) {
    expect("cpu", {"type=int32"},
           "error[K1224]: attention of type=int32 is not known\n"
           "   = help: set type=float32, float16 or bfloat16\n");
}

} // namespace
} // namespace kiln::test
