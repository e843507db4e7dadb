#include "kernels.h"

#include "model.h"

#include "gpt_attention_bfloat16.h"
#include "gpt_attention_float32.h"
#include "gpt_embed_bfloat16.h"
#include "gpt_embed_float32.h"
#include "gpt_gated_bfloat16.h"
#include "gpt_gated_float32.h"
#include "gpt_norm_bfloat16.h"
#include "gpt_norm_float32.h"
#include "gpt_product_bfloat16.h"
#include "gpt_product_float32.h"
#include "gpt_product_residual_bfloat16.h"
#include "gpt_product_residual_float32.h"
#include "gpt_rotate_bfloat16.h"
#include "gpt_rotate_float32.h"
#include "gpt_scores_bfloat16.h"
#include "gpt_scores_float32.h"

namespace gpt {

#define GPT_KERNELS(TYPE)                                                                                    \
    {                                                                                                        \
        gpt_embed_##TYPE, gpt_norm_##TYPE, gpt_product_##TYPE, gpt_product_residual_##TYPE,                  \
            gpt_rotate_##TYPE, gpt_attention_##TYPE, gpt_gated_##TYPE, gpt_scores_##TYPE                     \
    }

const Kernels &kernels_of(kiln_type type) {
    static const Kernels float32 = GPT_KERNELS(float32), bfloat16 = GPT_KERNELS(bfloat16);
    return type == KILN_BFLOAT16 ? bfloat16 : float32;
}

} // namespace gpt
