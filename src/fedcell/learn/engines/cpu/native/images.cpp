// Kernels that PyTorch has no quick version of for channels-last images on a CPU, called by lowering.py.
//
// Every kernel takes its numbers and its pointers as two arrays, so that a list of kernels is a list of triples.
#include "convolution.h"
#include "depthwise.h"
#include "group_norm.h"

#define BY_CHANNELS(channels, call)                                  \
    if ((channels) % WIDEST == 0) { const int L = WIDEST; call; }    \
    else { const int L = WIDEST / 2; call; }

extern "C" {

void convolution(Numbers n, Pointers p) {  // x, weight, bias or null, y, packed weights, room or null
    const Shape &s = *(const Shape *)n;
    BY_CHANNELS(s.n_out, forward<L>(s, p[0], p[1], p[2], p[3], p[4], p[5]))
}

void convolution_by_input(Numbers n, Pointers p) {  // sent back, weight, found, packed weights, room or null
    const Shape &s = *(const Shape *)n;
    BY_CHANNELS(s.n_in, by_input<L>(s, p[0], p[1], p[2], p[3], p[4]))
}

void convolution_by_weight(Numbers n, Pointers p) {  // x, sent back, found, bias or null, packed, room or null
    const Shape &s = *(const Shape *)n;
    BY_CHANNELS(s.n_out, by_weight<L>(s, p[0], p[1], p[2], p[3], p[4], p[5]))
}

void depthwise(Numbers n, Pointers p) {  // as for convolutions
    const Shape &s = *(const Shape *)n;
    BY_CHANNELS(s.n_in, depth_forward<L>(s, p[0], p[1], p[2], p[3], p[4], p[5]))
}

void depthwise_by_input(Numbers n, Pointers p) {
    const Shape &s = *(const Shape *)n;
    BY_CHANNELS(s.n_in, depth_by_input<L>(s, p[0], p[1], p[2], p[3], p[4]))
}

void depthwise_by_weight(Numbers n, Pointers p) {
    const Shape &s = *(const Shape *)n;
    BY_CHANNELS(s.n_in, depth_by_weight<L>(s, p[0], p[1], p[2], p[3], p[4], p[5]))
}

// numbers: images, pixels, channels, groups, relu
void group_norm(Numbers n, Pointers p) {  // eps, x, gamma, beta, y, mean, rstd
    BY_CHANNELS(n[2], group_norm_forward<L>(n[0], n[1], n[2], n[3], n[4], *p[0], p[1], p[2], p[3], p[4], p[5], p[6]))
}

void group_norm_by_input(Numbers n, Pointers p) {  // sent, x, mean, rstd, gamma, output or null, found, by gamma, by beta
    BY_CHANNELS(n[2], group_norm_backward<L>(n[0], n[1], n[2], n[3], p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8]))
}
}
