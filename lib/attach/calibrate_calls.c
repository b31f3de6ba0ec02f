// SPDX-License-Identifier: BSD-2-Clause
// Timing system calls of our own while they are targets: one whose end is looked for, and one
// that is only counted.
//
// What disturbs only ever adds: of many windows the one that took least counts, and what the
// same calls took before is taken off. All processes pay meanwhile, for a tenth of a second.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "attach/attach.h"
#include "base/file.h"
#include "base/util.h"
#include "internal.h"
#include "kernel/kernel.h"
#include "target/draft.h"

#define CACHE   "syscalls"
#define CODE_NO 2 /* one more when what is timed is another */
#define CALLS   100
#define WINDOWS 200

/* The order of these is that of a draft: what has times stands first. */
enum { TIMED, COUNTED, CALL_CNT };

static const struct {
	const char *target;
	long number;
} calls[CALL_CNT] = {
	[TIMED] = { "s:getppid", SYS_getppid },
	[COUNTED] = { "s:getuid", SYS_getuid },
};

struct took {
	uint64_t bare_ns[CALL_CNT], probed_ns[CALL_CNT]; /* of CALLS calls */
	uint64_t run_ns[CALL_CNT]; /* the programs' own, of one call; 0: not known */
};

static uint64_t time_window(long number)
{
	uint64_t start = clock_ns(CLOCK_MONOTONIC);

	for (int i = 0; i < CALLS; i++)
		syscall(number);
	return clock_ns(CLOCK_MONOTONIC) - start;
}

static void time_calls(uint64_t ns[CALL_CNT])
{
	for (int i = 0; i < CALL_CNT; i++)
		ns[i] = UINT64_MAX;
	for (int n = 0; n < WINDOWS; n++)
		for (int i = 0; i < CALL_CNT; i++) {
			uint64_t took = time_window(calls[i].number);

			ns[i] = took < ns[i] ? took : ns[i];
		}
}

static void call_window(void *arg)
{
	(void)time_window(*(const long *)arg);
}

static int measure(int dir_fd, void *arg)
{
	_cleanup_mapping_ struct map_mapping stats = {};
	struct counters_of counters = { .fn_cnt = CALL_CNT };
	struct took *took = arg;
	int code = counters_map(dir_fd, &stats, &counters.row_cnt);

	if (code)
		return code;
	counters.stat = stats.addr;
	time_calls(took->probed_ns);
	for (int i = 0; i < CALL_CNT; i++) {
		struct runs runs = {};

		for (int n = 0; n < WINDOWS; n++)
			runs_watch(&counters, i, &runs, call_window, (void *)&calls[i].number);
		took->run_ns[i] = runs_usual(&runs);
	}
	return 0;
}

static int make_draft(struct draft **ret_draft, struct err *err)
{
	const char *functions[CALL_CNT];
	struct draft_opts opts = { .name = "calibration", .functions = functions,
		.function_cnt = CALL_CNT };
	int code;

	for (int i = 0; i < CALL_CNT; i++)
		functions[i] = calls[i].target;
	kernel_rules(&opts.rules, LINK_AUTO);
	code = draft_new(&opts, ret_draft, err);
	if (code)
		return code;
	if ((*ret_draft)->probed_cnt != CALL_CNT)
		return err_set(err, -ENOENT, "cannot find system calls to be timed");
	(*ret_draft)->targets[COUNTED].plan.exit = PLAN_EXIT_NONE;
	(*ret_draft)->timed_cnt = COUNTED;
	return 0;
}

/* "1-0123456789abcdef": whose figures they are. */
static void owner_of(char *buf, size_t size)
{
	snprintf(buf, size, "%d-%016" PRIx64, CODE_NO, engine_programs_id());
}

bool calibration_read_calls(struct price *price)
{
	_cleanup_free_ char *text = bootcache_read(CACHE);
	uint32_t *ns = price->whole_ns[PRICE_SYSCALL], *run_ns = price->run_ns[PRICE_SYSCALL];
	char owner[32], of[32];
	unsigned long long at_ns;

	owner_of(owner, sizeof(owner));
	if (!text || sscanf(text, "%31s at %llu: %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32,
			     of, &at_ns, &ns[PRICE_COUNT], &ns[PRICE_RETURN],
			     &run_ns[PRICE_COUNT], &run_ns[PRICE_RETURN]) != 6 ||
		strcmp(of, owner) != 0 || !at_ns) {
		ns[PRICE_COUNT] = ns[PRICE_RETURN] = 0;
		run_ns[PRICE_COUNT] = run_ns[PRICE_RETURN] = 0;
		return false;
	}
	if (!price->at_ns)
		price->at_ns = at_ns;
	return true;
}

static void price_write(const struct price *price)
{
	const uint32_t *ns = price->whole_ns[PRICE_SYSCALL], *run_ns = price->run_ns[PRICE_SYSCALL];
	char owner[32], text[128];

	owner_of(owner, sizeof(owner));
	snprintf(text, sizeof(text),
		"%s at %" PRIu64 ": %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32 "\n", owner,
		clock_ns(CLOCK_REALTIME), ns[PRICE_COUNT], ns[PRICE_RETURN], run_ns[PRICE_COUNT],
		run_ns[PRICE_RETURN]);
	bootcache_write(CACHE, text);
}

static uint32_t more_ns(const struct took *took, int call)
{
	uint64_t bare = took->bare_ns[call], probed = took->probed_ns[call];

	return probed > bare ? (probed - bare) / CALLS : 1;
}

int calibrate_calls(struct bpffs *fs, struct price *price, struct err *err)
{
	const struct attach_opts attach = { .processes = true, .nesting = true };
	_cleanup_draft_ struct draft *draft = NULL;
	struct took took = {};
	struct price of = {};
	int code = make_draft(&draft, err);

	time_calls(took.bare_ns);
	if (!code)
		code = attach_measure(draft, &attach, fs, measure, &took, err);
	if (code)
		return err_wrap(err, "cannot time system calls");
	of.whole_ns[PRICE_SYSCALL][PRICE_COUNT] = more_ns(&took, COUNTED);
	of.whole_ns[PRICE_SYSCALL][PRICE_RETURN] = more_ns(&took, TIMED);
	of.run_ns[PRICE_SYSCALL][PRICE_COUNT] = took.run_ns[COUNTED];
	of.run_ns[PRICE_SYSCALL][PRICE_RETURN] = took.run_ns[TIMED];
	price_write(&of);
	if (!calibration_read_calls(price)) {
		memcpy(price->whole_ns[PRICE_SYSCALL], of.whole_ns[PRICE_SYSCALL],
			sizeof(of.whole_ns[PRICE_SYSCALL]));
		memcpy(price->run_ns[PRICE_SYSCALL], of.run_ns[PRICE_SYSCALL],
			sizeof(of.run_ns[PRICE_SYSCALL]));
	}
	return 0;
}
