// SPDX-License-Identifier: BSD-2-Clause
// Functions to be probed while probes are timed: their first instruction is known.
#include "internal.h"

/*
 * In assembly, so that neither the compiler nor its options decide what a probe stands on.
 * The one kind begins with what kernels emulate, the other with what they single-step.
 */
#define FUNC(name, entry, end)                                                                \
	__asm__(".pushsection .text\n"                                                       \
		".p2align 6\n"                                                               \
		".hidden " name "\n"                                                         \
		".globl " name "\n"                                                          \
		".type " name ", %function\n" name ":\n"                                     \
		".cfi_startproc\n" entry end                                                 \
		".cfi_endproc\n"                                                             \
		".size " name ", . - " name "\n"                                             \
		".popsection\n")

#if defined(__x86_64__)
#define EMULATED                                                                              \
	"push %rbp\n.cfi_adjust_cfa_offset 8\n"                                              \
	"pop %rbp\n.cfi_adjust_cfa_offset -8\n"
#define STEPPED "lea (%rdi), %rax\n"
#define JUMP    "jmp calibrate_target\n"
#define EARLY   "jmp 1f\n1: ret\n"
#else
#define EMULATED "adr x9, .\n"
#define STEPPED  "add x9, x0, #1\n"
#define JUMP     "b calibrate_target\n"
#define EARLY    RET /* no dearer: the kernel emulates it */
#endif
#define RET "ret\n"

FUNC("calibrate_plain", STEPPED, RET);
FUNC("calibrate_target", "", RET);
FUNC("calibrate_emulated_count", EMULATED, RET);
FUNC("calibrate_emulated_return", EMULATED, RET);
FUNC("calibrate_emulated_ret", EMULATED, RET);
FUNC("calibrate_emulated_jump", EMULATED, JUMP);
FUNC("calibrate_emulated_early", EMULATED, EARLY);
FUNC("calibrate_stepped_count", STEPPED, RET);
FUNC("calibrate_stepped_return", STEPPED, RET);
FUNC("calibrate_stepped_ret", STEPPED, RET);
FUNC("calibrate_stepped_jump", STEPPED, JUMP);
FUNC("calibrate_stepped_early", STEPPED, EARLY);

#define HIDDEN extern __attribute__((visibility("hidden")))
HIDDEN void calibrate_emulated_count(void), calibrate_emulated_return(void),
	calibrate_emulated_ret(void), calibrate_emulated_jump(void),
	calibrate_emulated_early(void), calibrate_stepped_early(void),
	calibrate_stepped_count(void), calibrate_stepped_return(void),
	calibrate_stepped_ret(void), calibrate_stepped_jump(void);

void (*const calibrate_funcs[PRICE_SITES][PRICE_ENDS])(void) = {
	[PRICE_EMULATED] = { calibrate_emulated_count, calibrate_emulated_return,
		calibrate_emulated_ret, calibrate_emulated_jump, calibrate_emulated_early },
	[PRICE_STEPPED] = { calibrate_stepped_count, calibrate_stepped_return,
		calibrate_stepped_ret, calibrate_stepped_jump, calibrate_stepped_early },
};
