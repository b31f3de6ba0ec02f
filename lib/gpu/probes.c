// SPDX-License-Identifier: BSD-2-Clause
// Where libfuncsnoop-gpu.so is probed: functions and words that only others look at.
#include "gpu/probes.h"
#include "gpu/cupti.h"

/* The kernel counts in them who probes; no code of this library writes there. */
#define WANTED(name) \
	__attribute__((section(".probes"), used, visibility("hidden"))) volatile unsigned short \
		funcsnoop_gpu_##name##_wanted;
WANTED(kernels)
WANTED(copies)
WANTED(sets)
WANTED(graphs)

/* And for how much of the time, by FSN_GPU_DUTIES. */
#define DUTIES(name)                                                                   \
	__attribute__((section(".probes"), used, visibility("hidden"))) volatile unsigned short \
		funcsnoop_gpu_##name##_duty[FSN_GPU_DUTY_CNT];
DUTIES(kernels)
DUTIES(copies)
DUTIES(sets)
DUTIES(graphs)

/* And by which calls kernels were launched. */
WANTED(launches)

/* A note, and the code that it is of, where nothing goes by. */
#define ASKED(word, provider, probe)                                                   \
	".pushsection .text.unlikely, \"ax\", \"progbits\"\n"                           \
	"980:	nop\n"                                                                 \
	".popsection\n"                                                                \
	".pushsection .note.stapsdt, \"\", \"note\"\n"                                \
	".balign 4\n"                                                                  \
	".4byte 982f-981f, 984f-983f, 3\n"                                             \
	"981:	.asciz \"stapsdt\"\n"                                                 \
	"982:	.balign 4\n"                                                           \
	"983:	.8byte 980b, _.stapsdt.base, " word "\n"                               \
	".asciz \"" provider "\", \"" probe "\", \"\"\n"                               \
	"984:	.balign 4\n"                                                           \
	".popsection\n"
#define DUTY(name, number, seconds)                                                    \
	ASKED("funcsnoop_gpu_" #name "_duty+2*" #number, FSN_GPU_DUTY_PROVIDER, #name #seconds)

/*
 * A function that does nothing, with the note of a USDT probe: where it is, where the word is that
 * says whether anybody listens, and where the batch's address lies.
 */
#define PROBED(name, asked)                                                                    \
	__attribute__((noinline)) EXPORT void funcsnoop_gpu_##name(const struct fsn_gpu_batch *b); \
	void funcsnoop_gpu_##name(const struct fsn_gpu_batch *b)                               \
	{                                                                                      \
		__asm__ volatile("990:	nop\n"                                                 \
				 ".pushsection .note.stapsdt, \"\", \"note\"\n"                \
				 ".balign 4\n"                                                 \
				 ".4byte 992f-991f, 994f-993f, 3\n"                            \
				 "991:	.asciz \"stapsdt\"\n"                                  \
				 "992:	.balign 4\n"                                           \
				 "993:	.8byte 990b, _.stapsdt.base, funcsnoop_gpu_" #name     \
				 "_wanted\n"                                                   \
				 ".asciz \"" FSN_GPU_PROVIDER "\", \"" #name "\", \"8@%0\"\n"  \
				 "994:	.balign 4\n"                                           \
				 ".popsection\n"                                               \
				 FSN_GPU_DUTIES(DUTY, name) asked                              \
				 ".ifndef _.stapsdt.base\n"                                    \
				 ".pushsection .stapsdt.base, \"aG\", \"progbits\", "          \
				 ".stapsdt.base, comdat\n"                                     \
				 ".weak _.stapsdt.base\n"                                      \
				 ".hidden _.stapsdt.base\n"                                    \
				 "_.stapsdt.base: .space 1\n"                                  \
				 ".size _.stapsdt.base, 1\n"                                   \
				 ".popsection\n"                                               \
				 ".endif\n"                                                    \
				 :                                                             \
				 : "r"(b)                                                      \
				 : "memory");                                                  \
	}
PROBED(kernels,
	ASKED("funcsnoop_gpu_launches_wanted", FSN_GPU_ASK_PROVIDER, FSN_GPU_ASK_LAUNCHES))
PROBED(copies, "")
PROBED(sets, "")
PROBED(graphs, "")

const struct stream streams[STREAM_CNT] = {
	[KERNELS] = { &funcsnoop_gpu_kernels_wanted, funcsnoop_gpu_kernels_duty,
		funcsnoop_gpu_kernels,
		{ CUPTI_CONCURRENT_KERNEL } },
	[COPIES] = { &funcsnoop_gpu_copies_wanted, funcsnoop_gpu_copies_duty,
		funcsnoop_gpu_copies,
		{ CUPTI_MEMCPY, CUPTI_MEMCPY2 } },
	[SETS] = { &funcsnoop_gpu_sets_wanted, funcsnoop_gpu_sets_duty,
		funcsnoop_gpu_sets, { CUPTI_MEMSET } },
	[GRAPHS] = { &funcsnoop_gpu_graphs_wanted, funcsnoop_gpu_graphs_duty,
		funcsnoop_gpu_graphs, { CUPTI_GRAPH } },
};

static const unsigned int duties[FSN_GPU_DUTY_CNT] = {
#define SECONDS(what, number, seconds) [number] = (seconds),
	FSN_GPU_DUTIES(SECONDS, )
#undef SECONDS
};

bool launches_asked(void)
{
	return funcsnoop_gpu_launches_wanted;
}

unsigned int period_asked(enum stream_of s)
{
	unsigned int i = 0;

	while (i < FSN_GPU_DUTY_CNT && !streams[s].duty[i])
		i++;
	return i < FSN_GPU_DUTY_CNT && duties[i] > 1 ? duties[i] : 0;
}
