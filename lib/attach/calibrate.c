// SPDX-License-Identifier: BSD-2-Clause
// Timing a function of our own with and without probes.
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <time.h>

#include "attach/attach.h"
#include "attach/calibrate.h"
#include "base/util.h"
#include "kernel/rules.h"
#include "target/draft.h"

#define GROUP_NAME "calibration"
#define ROUNDS     7
#define CALLS      500

/*
 * Begins with a push, which the kernel emulates: the fast kind of site. Its size must not
 * change with the compiler's mood, so it does nothing else.
 */
__attribute__((noinline)) static int probed_call(int n)
{
	__asm__ volatile("" ::: "memory",
#if defined(__x86_64__)
		"rbx"
#else
		"x19"
#endif
	);
	return n + 1;
}

/* ns for one call, the best of some rounds: what disturbs only ever adds. */
static uint64_t time_calls(void)
{
	int (*volatile call)(int) = probed_call;
	uint64_t best = UINT64_MAX, start, took;

	for (int round = 0; round < ROUNDS; round++) {
		start = clock_ns(CLOCK_MONOTONIC);
		for (int i = 0; i < CALLS; i++)
			call(i);
		took = clock_ns(CLOCK_MONOTONIC) - start;
		if (took < best)
			best = took;
	}
	return best / CALLS;
}

/* Where probed_call() lies in our file: "+0xOFFSET". */
static int own_offset(char *buf, size_t size, struct err *err)
{
	uint64_t addr = (uintptr_t)probed_call, start, end, offset;
	_cleanup_fclose_ FILE *f = fopen("/proc/self/maps", "re");
	char line[PATH_MAX + 128];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64, &start, &end, &offset) ==
				3 &&
			addr >= start && addr < end) {
			snprintf(buf, size, "+%#" PRIx64, addr - start + offset);
			return 0;
		}
	return err_set(err, -ENOENT, "cannot find this program's own code");
}

static int measure(void *arg)
{
	*(uint64_t *)arg = time_calls();
	return 0;
}

static int calibrate_exit(struct bpffs *fs, enum plan_exit_mode exit, uint64_t *ret_ns,
	struct err *err)
{
	static const char *const libs[] = { "/proc/self/exe" };
	const struct attach_opts attach = { .processes = true };
	_cleanup_target_ struct target *t = NULL;
	const char *functions[1];
	char function[32];
	struct target_opts opts = {
		.name = GROUP_NAME,
		.functions = functions,
		.function_cnt = 1,
		.libs = libs,
		.lib_cnt = 1,
	};
	uint64_t plain = time_calls(), probed = 0;
	int code;

	kernel_rules(&opts.rules);
	opts.rules.exit = exit;
	opts.rules.count_only = exit == PLAN_MODE_NONE;
	code = own_offset(function, sizeof(function), err);
	functions[0] = function;
	if (!code)
		code = target_new(&opts, &t, err);
	if (!code)
		code = attach_measure(t, &attach, fs, measure, &probed, err);
	if (code)
		return err_wrap(err, "cannot calibrate");
	*ret_ns = probed > plain ? probed - plain : 0;
	return 0;
}

int calibrate(struct bpffs *fs, struct calibration *ret_calibration, struct err *err)
{
	static const struct {
		enum group_exit exit;
		enum plan_exit_mode mode;
	} ways[] = { { GROUP_EXIT_NONE, PLAN_MODE_NONE }, { GROUP_EXIT_RETURN, PLAN_MODE_RETURN },
		{ GROUP_EXIT_RET, PLAN_MODE_RET } };
	struct calibration c = {};
	int code;

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		code = calibrate_exit(fs, ways[i].mode, &c.ns[ways[i].exit], err);
		if (code)
			return code;
	}
	c.ns[GROUP_EXIT_SAME] = c.ns[GROUP_EXIT_NONE];
	c.at_ns = clock_ns(CLOCK_REALTIME);
	calibration_write(&c);
	*ret_calibration = c;
	return 0;
}
