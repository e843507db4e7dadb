/** \file
 * Kernels as text that tests of dsl/tile start from.
 */
#pragma once

#include <string>

namespace kiln::tile {

/// What `build` makes of acc(n, m) += f32(x(k, m))·f32(w(k, n)); y = bf16(max(acc + f32(bias(n)), 0)), after the rewrites.
inline std::string gemm_text() {
    return R"(kernel y {
  axes k:64, m:128, n:64
  rows m
  input x: bf16 rank 2
  input w: bf16 rank 2
  input bias: bf16 rank 1
  output y: bf16 rank 2
  grid no: (y.extent.0 + 63)/64
  grid mo: (y.extent.1 + 127)/128
  plan {
    kernel y
    block n: 64 over no
    block m: 128 over mo
    grid no, mo
    split acc k 64
    copy w: tma swizzle 128 stages 3
    copy x: tma swizzle 128 stages 3
    product acc: wgmma stage 0
    rows m
    warpgroups 2, 1
    registers 0, 0
    persistent 8
  }
  body {
    for ko in 0 .. (x.extent.0 + 63)/64 carry acc: f32[m:128, n:64] = 0.0 then acc_next {  // acc
      xs: bf16[m:128, k:64] of x = copy x[ko*64 + %k, mo*128 + %m]
      ws: bf16[n:64, k:64] of w = copy w[ko*64 + %k, no*64 + %n]
      acc_next: f32[m:128, n:64] of acc = mma(acc, xs, ws; k)
    }
    y0: bf16[m:128, n:64] of y = map bf16(max(acc + f32(bias[no*64 + %n]), 0.0))
    store y[no*64 + %n, mo*128 + %m] = y0  // y
  }
}
)";
}

/// Every statement and every form of an Expr once, without regard to meaning.
inline std::string every_statement_text() {
    return R"(kernel `odd name` {
  axes i:64, k:32
  rows i
  input `a b`: f32 rank 2
  input x.0: u8 rank 0
  output y: bf16 rank 1
  grid b: max(y.extent.0, 1) % 7 cluster 2
  condition y.extent.0 <= 64
  remark "said \"no\", \\ twice"
  plan {
    kernel y
    block i: 64
    block n: 1 over b
    grid b
    split f r 32
    whole f q 8
    tiles f, g
    outside h
    copy x: cp_async swizzle 64 stages 2 multicast
    product f: mma_sync stage 1
    rows i
    warpgroups 1, 2
    registers 232, 40
    persistent 4
    dynamic
    ping_pong
    launch_ahead
    direct
    cluster 2, 1
  }
  layout L0 = threads(k*2:4, i:8, i*16:4) registers(k:2, i*8:2, k*8:4)
  layout L1 = threads(-:4, i:8, i*16:4) registers(i*8:2)
  layout S0 = shared(k:32, i:64) element 4 slab 32 pitch 128 swizzle 128
  layout S1 = shared(-:8, i:64) element 2 slab 8 pitch 16 swizzle 0
  ring r0: s depth 2 bytes 8192 consumers 1 barriers 16384
  ring r1: - depth 1 bytes 0 consumers 2 blocks 2 barriers 16416
  threads 384
  shared 17440
  staging 1024 bytes 2048
  scratch 4096 bytes 64
  tile unused: i64[] of -
  body {
    role producer warpgroups 1 from 1 threads 1 registers 40 {  // y
      for each tile {
        wait empty r0
        expect r0 bytes min(y.extent.0, 64)*128
        s: f32[i:64, k:32] of `a b` @S0 at 0 ring r0 = load tma `a b`[0 + %k, b*64 + %i] rows min(y.extent.0, 64)
        s = load tma `a b`[0 + %k, b*64 + %i] part cluster.rank % 2 of 2 to @shift_left(3, cluster.rank/2*2)
        advance r0
      }
      drain r0
    }
    role consumer warpgroups 1 from 0 threads 128 registers 232 {
      skip r0 by max(b - turn, 0)
      for v in 0 .. b - 1 untested 1 .. wg + 3 carry c: f32[i:64, k:32] @L0 = -inf then c1, z: i32[i:64] @L1 partial = -3 then z {  // f
        wait full r0
        mma_fence
        c1: f32[i:64, k:32] @L0 in c = mma(c, s, s; k below y.extent.0 - v*32) zero when v == 0
        c1 = mma(0, s, s; k)  // again
        mma_commit
        mma_wait 0
        release r0 sync
        release r0 to 3
        if v > 0 && !(v == 3) || (v < 2) == true {  // f
          d: f32[i:64] @L1 partial = reduce sum over k below 5 @L0 of c1*(c1 + 1.5e-05) - (c1 - 2.0)
        } else {
          d = fill 0.1
          d = move d
          d = lane_reduce max d  //
        }
        if true {
        }
      }
      e: bf16[i:64] = map bf16(select(is_nan_f32(d):bool, exp_f32(d), `a b`[%i, 0])) unless v*64 + 63 <= 5
      u: u8[] = map u8(reinterpret_u32(d)) + x.0[] + 3:u8 + (let t = 7:u8 in t*t) + @abs(-5:i8):u8 + v:u8
      g: f32[i:64] = copy `a b`[0 + %i, 3]
      stage e rows 0 column 16 at 1024 + wg*512 @S1
      stage e rows 0 column 0 at 1024 @S1 of bf16(d)
      cluster_barrier
      proxy_fence
      barrier 1 + wg threads 128
      barrier 0 threads 384 arrive
      tma_store y[b*64 + %i] at 1024 @S1
      store_commit
      store_wait 1
      global_store y[b*64 + %i] = e vector 2
      store y[0] = e
    }
  }
}
)";
}

} // namespace kiln::tile
