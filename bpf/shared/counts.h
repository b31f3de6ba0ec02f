/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What is counted of a function: the same in the programs' maps, in the baselines of resets
 * and in the statistics that are made of them. It says nothing of the maps' layout, so that
 * all may see it.
 */
#ifndef FUNCSNOOP_SHARED_COUNTS_H
#define FUNCSNOOP_SHARED_COUNTS_H

/* They only grow, but for the statistics' own. What a call writes stands first. */
#define FSN_COUNTS(X)                                                           \
	X(total_ns)                                                             \
	X(errors)                                                               \
	X(slow)                                                                 \
	X(returns)     /* ends that took their slot */                          \
	X(abandoned)   /* given up: can't return any more */                    \
	X(no_slot)     /* not followed: the set of slots was full */            \
	X(sampled_out) /* not followed: not the one of N */                     \
	X(calls)       /* entries */                                            \
	X(jumped)      /* left by a jump: go on where no end is seen */         \
	X(unmatched)   /* ends without their call; in no sum */                 \
	X(revived)     /* given up, and have returned all the same */           \
	X(passed)      /* hits of probed jumps that did not leave; in no sum */

struct fsn_counts {
#define X(name) unsigned long long name;
	FSN_COUNTS(X)
#undef X
};

#endif
