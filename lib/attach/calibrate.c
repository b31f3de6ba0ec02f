// SPDX-License-Identifier: BSD-2-Clause
// Timing functions of our own under probes, all kinds of them in one attach.
//
// What disturbs only ever adds, and often does so for a while: on a busy machine a window
// of calls can be half as long again as the next. So of each window the tenth that is
// fastest is looked at, the lowest of all windows is taken, and when the next lowest is not
// nearly the same the figures are told to be noise. What is subtracted from every duration
// must rather be too little than too much.
//
// What calls take of their caller's time is taken off its own time, often a thousand times, and
// too little is as wrong there as too much: the lower quartile of windows inside of a probed
// call, since a call in a call takes a bit more.
//
// The programs' own run time is a part of all that. They measure it here as in any group, whose run
// time is compared with it.
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <bpf/bpf.h>

#include "attach/attach.h"
#include "base/apart.h"
#include "base/file.h"
#include "base/util.h"
#include "group/records.h"
#include "internal.h"
#include "kernel/kernel.h"
#include "target/draft.h"

/* --- functions to be probed: their first instruction is known ------------------------------- */

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
#define CALL                                                                                  \
	"sub $8, %rsp\n.cfi_adjust_cfa_offset 8\n"                                           \
	"mov %rdi, %rax\nmov %rsi, %rdi\ncall *%rax\n"                                       \
	"add $8, %rsp\n.cfi_adjust_cfa_offset -8\n"
#else
#define EMULATED "adr x9, .\n"
#define STEPPED  "add x9, x0, #1\n"
#define JUMP     "b calibrate_target\n"
#define EARLY    RET /* no dearer: the kernel emulates it */
#define CALL                                                                                  \
	"stp x29, x30, [sp, #-16]!\n.cfi_def_cfa_offset 16\n.cfi_offset 30, -8\n"            \
	"mov x9, x0\nmov x0, x1\nblr x9\n"                                                   \
	"ldp x29, x30, [sp], #16\n.cfi_def_cfa_offset 0\n.cfi_restore 30\n"
#endif
#define RET "ret\n"

FUNC("calibrate_plain", STEPPED, RET);
FUNC("calibrate_target", "", RET);
FUNC("calibrate_caller", EMULATED CALL, RET);
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
HIDDEN void calibrate_plain(void), calibrate_emulated_count(void), calibrate_emulated_return(void),
	calibrate_emulated_ret(void), calibrate_emulated_jump(void),
	calibrate_emulated_early(void), calibrate_stepped_early(void),
	calibrate_stepped_count(void), calibrate_stepped_return(void),
	calibrate_stepped_ret(void), calibrate_stepped_jump(void),
	calibrate_caller(void (*call)(void *), void *arg);

static void (*const calibrate_funcs[PRICE_INSNS][PRICE_ENDS])(void) = {
	[PRICE_EMULATED] = { calibrate_emulated_count, calibrate_emulated_return,
		calibrate_emulated_ret, calibrate_emulated_jump, calibrate_emulated_early },
	[PRICE_STEPPED] = { calibrate_stepped_count, calibrate_stepped_return,
		calibrate_stepped_ret, calibrate_stepped_jump, calibrate_stepped_early },
};

#define GROUP_NAME  "calibration"
#define CLASSES     (PRICE_INSNS * PRICE_ENDS)
#define WARM        6  /* calls before those that are looked at */
#define CALLS       40
#define WINDOWS_MIN 12
#define WINDOWS_MAX 40
#define BUDGET_NS   120000000ULL
#define RUNS_BITS   4  /* run time is measured of one call of 16: more would show in the others */

/* --- time ----------------------------------------------------------------------------------- */

/* The two lowest values of all windows. */
struct lowest {
	uint64_t first, second;
};

struct windows {
	struct counters_of counters;
	uint32_t fn_of[CLASSES]; /* by site * PRICE_ENDS + end */
	struct lowest plain, overhead[CLASSES], whole[CLASSES];
	uint64_t plain_row[WINDOWS_MAX], rest[CLASSES][WINDOWS_MAX];
	struct runs runs[CLASSES];
	int cnt;
};

static void lowest_add(struct lowest *l, uint64_t value)
{
	if (value < l->first) {
		l->second = l->first;
		l->first = value;
	} else if (value < l->second) {
		l->second = value;
	}
}

/* Thousandths by which the two differ. */
static uint32_t spread_of(const struct lowest *l)
{
	if (!l->first || l->second == UINT64_MAX)
		return 0;
	return (l->second - l->first) * 1000 / l->first;
}

static int compare_u64(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static uint64_t recorded(const struct windows *w, uint32_t fn)
{
	return counters_sum(&w->counters, fn, offsetof(struct fsn_counts, total_ns));
}

/* Times calls of @func in a window; @overhead is NULL where nothing is recorded. */
static void time_window(const struct windows *w, void (*func)(void), uint32_t fn,
	struct lowest *whole, struct lowest *overhead)
{
	void (*volatile call)(void) = func;
	uint64_t took[CALLS], inside[CALLS], start, before;

	for (int i = -WARM; i < CALLS; i++) {
		int at = i < 0 ? 0 : i;

		before = overhead ? recorded(w, fn) : 0;
		start = clock_ns(CLOCK_MONOTONIC);
		call();
		took[at] = clock_ns(CLOCK_MONOTONIC) - start;
		inside[at] = overhead ? recorded(w, fn) - before : 0;
	}
	qsort(took, CALLS, sizeof(*took), compare_u64);
	lowest_add(whole, took[CALLS / 2]);
	if (!overhead)
		return;
	qsort(inside, CALLS, sizeof(*inside), compare_u64);
	lowest_add(overhead, inside[CALLS / 10]);
}

struct row {
	const struct windows *w;
	void (*func)(void);
	uint32_t fn;
	uint64_t took_ps; /* what calls of @func take of their caller's time, each */
};

static void time_row(void *arg)
{
	struct row *r = arg;
	void (*volatile call)(void) = r->func;
	uint64_t start, took, before;

	before = recorded(r->w, r->fn);
	start = clock_ns(CLOCK_MONOTONIC);
	for (int i = 0; i < CALLS; i++)
		call();
	took = clock_ns(CLOCK_MONOTONIC) - start;
	took -= r->func == calibrate_plain ? 0 : recorded(r->w, r->fn) - before;
	r->took_ps = took * 1000 / CALLS;
}

/* That of which nothing is recorded, of a call in a probed one. */
static uint64_t rest_ps(const struct windows *w, void (*func)(void), uint32_t fn)
{
	struct row row = { .w = w, .func = func, .fn = fn };

	calibrate_caller(time_row, &row);
	return row.took_ps;
}

static void call_func(void *arg)
{
	void (*volatile call)(void) = *(void (**)(void))arg;

	call();
}

static void time_all(struct windows *w)
{
	time_window(w, calibrate_plain, 0, &w->plain, NULL);
	w->plain_row[w->cnt] = rest_ps(w, calibrate_plain, 0);
	for (int class = 0; class < CLASSES; class++) {
		void (*func)(void) = calibrate_funcs[class / PRICE_ENDS][class % PRICE_ENDS];

		time_window(w, func, w->fn_of[class], &w->whole[class],
			class % PRICE_ENDS == PRICE_COUNT ? NULL : &w->overhead[class]);
		w->rest[class][w->cnt] = rest_ps(w, func, w->fn_of[class]);
		for (int i = 0; i < CALLS; i++)
			runs_watch(&w->counters, w->fn_of[class], &w->runs[class], call_func, &func);
	}
	w->cnt++;
}

static uint32_t windows_spread(const struct windows *w)
{
	uint32_t most = 0;

	for (int class = 0; class < CLASSES; class++) {
		uint32_t overhead = spread_of(&w->overhead[class]),
			 whole = spread_of(&w->whole[class]);

		most = overhead > most ? overhead : most;
		most = whole > most ? whole : most;
	}
	return most;
}

static void windows_take(struct windows *w)
{
	uint64_t end = clock_ns(CLOCK_MONOTONIC) + BUDGET_NS;

	w->plain = (struct lowest) { UINT64_MAX, UINT64_MAX };
	for (int class = 0; class < CLASSES; class++)
		w->overhead[class] = w->whole[class] = w->plain;
	do
		time_all(w);
	while (w->cnt < WINDOWS_MIN ||
		(windows_spread(w) > CALIBRATION_STEADY && w->cnt < WINDOWS_MAX &&
			clock_ns(CLOCK_MONOTONIC) < end));
}

static void calibration_of(struct windows *w, struct calibration *ret_calibration)
{
	struct calibration c = { .spread = windows_spread(w) };
	uint64_t plain = w->plain.first, plain_row = lower_quartile(w->plain_row, w->cnt);

	c.price.at_ns = clock_ns(CLOCK_REALTIME);
	for (int class = 0; class < CLASSES; class++) {
		int site = class / PRICE_ENDS, end = class % PRICE_ENDS;
		uint64_t overhead = w->overhead[class].first, whole = w->whole[class].first,
			 rest = lower_quartile(w->rest[class], w->cnt);

		if (overhead != UINT64_MAX)
			c.price.overhead_ns[site][end] = overhead;
		c.price.whole_ns[site][end] = whole > plain ? whole - plain : 0;
		if (rest > plain_row)
			c.price.rest_ns[site][end] = (rest - plain_row) / 1000;
		c.price.run_ns[site][end] = runs_usual(&w->runs[class]);
	}
	*ret_calibration = c;
}

/* --- what is probed ------------------------------------------------------------------------- */

/* Where the function at @addr lies in our file. */
static int own_offset(uint64_t addr, uint64_t *ret_offset, struct err *err)
{
	uint64_t start, end, offset;
	_cleanup_fclose_ FILE *f = fopen("/proc/self/maps", "re");
	char line[PATH_MAX + 128];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64, &start, &end, &offset) ==
				3 &&
			addr >= start && addr < end) {
			*ret_offset = addr - start + offset;
			return 0;
		}
	return err_set(err, -ENOENT, "cannot find this program's own code");
}

/*
 * All were planned with probes on their ends, early ones where there is a jump in front of the
 * ret; gives each the end of its class.
 */
static void set_end(struct target *f, enum price_end end, const struct plan_rules *rules)
{
	if (end == PRICE_COUNT || (end == PRICE_RETURN && rules->return_unsafe))
		f->plan.exit = PLAN_EXIT_NONE;
	else if (end == PRICE_RETURN)
		f->plan.exit = PLAN_EXIT_RETURN;
}

/* Gives functions their ends, the timed ones first, and notes which number each class has. */
static void set_ends(struct draft *draft, const uint64_t *offsets, const struct plan_rules *rules,
	struct windows *w)
{
	size_t timed = 0;

	for (size_t i = 0; i < draft->probed_cnt; i++)
		for (int class = 0; class < CLASSES; class++)
			if (draft->targets[i].offset == offsets[class])
				set_end(&draft->targets[i], class % PRICE_ENDS, rules);
	for (size_t i = 0; i < draft->probed_cnt; i++)
		if (draft->targets[i].plan.exit != PLAN_EXIT_NONE) {
			struct target f = draft->targets[timed];

			draft->targets[timed++] = draft->targets[i];
			draft->targets[i] = f;
		}
	draft->timed_cnt = timed;
	for (size_t i = 0; i < draft->probed_cnt; i++)
		for (int class = 0; class < CLASSES; class++)
			if (draft->targets[i].offset == offsets[class])
				w->fn_of[class] = i;
	w->counters.fn_cnt = draft->probed_cnt;
}

static int make_draft(struct draft **ret_draft, struct windows *w, struct err *err)
{
	static const char *const libs[] = { "/proc/self/exe" };
	char names[CLASSES + 1][24];
	const char *functions[CLASSES + 1];
	uint64_t offsets[CLASSES + 1] = {};
	struct draft_opts opts = {
		.name = GROUP_NAME,
		.functions = functions,
		.function_cnt = CLASSES + 1,
		.libs = libs,
		.lib_cnt = 1,
	};
	int code = 0;

	kernel_rules(&opts.rules, LINK_AUTO);
	opts.rules.exit = PLAN_MODE_EARLY;
	opts.rules.site_entry = true;
	opts.rules.leave_jumps = true;
	for (int i = 0; !code && i <= CLASSES; i++) {
		uintptr_t addr = i == CLASSES
			? (uintptr_t)calibrate_caller
			: (uintptr_t)calibrate_funcs[i / PRICE_ENDS][i % PRICE_ENDS];

		code = own_offset(addr, &offsets[i], err);
		snprintf(names[i], sizeof(names[i]), "+%#" PRIx64, offsets[i]);
		functions[i] = names[i];
	}
	if (!code)
		code = draft_new(&opts, ret_draft, err);
	if (!code)
		set_ends(*ret_draft, offsets, &opts.rules, w);
	return code;
}

static int measure(int dir_fd, void *arg)
{
	_cleanup_mapping_ struct map_mapping stats = {};
	struct windows *w = arg;
	int code = counters_map(dir_fd, &stats, &w->counters.row_cnt);

	if (code)
		return code;
	w->counters.stat = stats.addr;
	windows_take(w);
	return 0;
}

/* --- the command ----------------------------------------------------------------------------- */

struct calibrating {
	const struct draft *draft;
	const struct attach_opts *opts;
	struct bpffs *fs;
	struct windows windows;
	struct err err;
};

/* Runs apart, so that its probes and its folder go whatever ends the command. */
static void calibrate_apart(void *arg)
{
	struct calibrating *c = arg;
	struct err err = {};

	attach_measure(c->draft, c->opts, c->fs, measure, &c->windows, &err);
	c->err = err;
	if (apart_orphaned()) /* its lock is nobody else's now */
		bpffs_unlock(c->fs);
}

static int calibrate_as(struct calibrating *c, struct err *err)
{
	_cleanup_draft_ struct draft *draft = NULL;
	int code = make_draft(&draft, &c->windows, err);

	if (!code)
		code = bpffs_lock(c->fs, err);
	if (code)
		return code;
	c->draft = draft;
	err_sys(&c->err, -EINTR, "cannot measure"); /* until it is known better */
	apart_run(calibrate_apart, c, NULL, NULL);
	if (c->err.code)
		*err = c->err;
	return c->err.code;
}

int calibrate(struct bpffs *fs, enum link_mode mode, struct calibration *ret_calibration,
	struct err *err)
{
	const struct attach_opts opts = { .link = mode, .processes = true, .nesting = true,
		.runs_bits = RUNS_BITS };
	struct calibrating *c = apart_alloc(sizeof(*c));
	int code;

	c->opts = &opts;
	c->fs = fs;
	code = calibrate_as(c, err);
	if (code) {
		err_wrap(err, "cannot calibrate");
	} else {
		calibration_of(&c->windows, ret_calibration);
		calibration_write(mode, ret_calibration);
	}
	apart_free(c, sizeof(*c));
	return code;
}
