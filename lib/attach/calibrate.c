// SPDX-License-Identifier: BSD-2-Clause
// Calibration: measures the overhead of probes on this machine.
#include <inttypes.h>
#include <limits.h>
#include <sys/syscall.h>

#include <bpf/bpf.h>

#include "attach/attach.h"
#include "base/apart.h"
#include "base/file.h"
#include "base/util.h"
#include "group/records.h"
#include "internal.h"
#include "kernel/kernel.h"
#include "target/draft.h"

/* --- results, cached until the next boot --------------------------------------------------- */

/*
 * The cache has one line per link kind and build, with overhead, whole, rest and run of each class.
 * A build is identified by its BPF programs and by KEPT_CODE_NO.
 */
#define KEPT_CACHE        "calibration"
#define LINE_MAX_LEN 512
#define LINES_MAX    (BOOTCACHE_MAX / LINE_MAX_LEN - 1)
#define KEPT_CODE_NO      3 /* increment when the measured code or the measurement changes */

/* "session of 1-0123456789abcdef at" */
static void line_begin(char *begin, size_t size, enum link_mode mode)
{
	snprintf(begin, size, "%s of %d-%016" PRIx64 " at", link_mode_name(mode), KEPT_CODE_NO,
		engine_programs_id());
}

static size_t line_write(char *line, const char *begin, const struct calibration *c)
{
	size_t len = snprintf(line, LINE_MAX_LEN, "%s %llu spread %" PRIu32 ":", begin,
		c->price.at_ns, c->spread);

	for (int site = 0; site < PRICE_INSNS; site++)
		for (int end = 0; end < PRICE_ENDS; end++)
			len += snprintf(line + len, LINE_MAX_LEN - len,
				" %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32,
				c->price.overhead_ns[site][end],
				c->price.whole_ns[site][end], c->price.rest_ns[site][end],
				c->price.run_ns[site][end]);
	return len + snprintf(line + len, LINE_MAX_LEN - len, "\n");
}

static bool line_read(const char *line, const char *begin, struct calibration *ret_calibration)
{
	struct calibration c = {};
	int used = 0;

	if (strncmp(line, begin, strlen(begin)) != 0)
		return false;
	line += strlen(begin);
	if (sscanf(line, " %llu spread %" SCNu32 ":%n", &c.price.at_ns, &c.spread, &used) != 2 ||
		!used)
		return false;
	for (int site = 0; site < PRICE_INSNS; site++)
		for (int end = 0; end < PRICE_ENDS; end++) {
			line += used;
			if (sscanf(line, " %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32 "%n",
				    &c.price.overhead_ns[site][end],
				    &c.price.whole_ns[site][end],
				    &c.price.rest_ns[site][end],
				    &c.price.run_ns[site][end], &used) != 4)
				return false;
		}
	if (line[used] && line[used] != '\n')
		return false;
	*ret_calibration = c;
	return c.price.at_ns;
}

static const char *next_line(const char *line)
{
	line += strcspn(line, "\n");
	return *line ? line + 1 : line;
}

/* Writes the new line first, and drops the oldest line if there are too many. */
static void calibration_write(enum link_mode mode, const struct calibration *calibration)
{
	_cleanup_free_ char *old = bootcache_read(KEPT_CACHE);
	char text[LINES_MAX * LINE_MAX_LEN + 1] = "", begin[64];
	size_t len, cnt = 1;

	line_begin(begin, sizeof(begin), mode);
	len = line_write(text, begin, calibration);
	for (const char *line = old; line && *line; line = next_line(line)) {
		size_t n = next_line(line) - line;

		if (n >= LINE_MAX_LEN || !strncmp(line, begin, strlen(begin)) ||
			cnt++ == LINES_MAX)
			continue;
		memcpy(text + len, line, n);
		len += n;
	}
	text[len] = '\0';
	bootcache_write(KEPT_CACHE, text);
}

bool calibration_read(enum link_mode mode, struct calibration *ret_calibration)
{
	_cleanup_free_ char *text = bootcache_read(KEPT_CACHE);
	char begin[64];

	line_begin(begin, sizeof(begin), mode);
	for (const char *line = text; line && *line; line = next_line(line))
		if (line_read(line, begin, ret_calibration))
			return true;
	return false;
}

/* Reading a group's counters during a calibration, and the run time that its programs measure. */

struct counters_of {
	const struct fsn_stat *stat;
	uint32_t fn_cnt, row_cnt;
};

/* Run times of the BPF programs, as they measured them. */
#define RUNS_MAX 256
struct runs {
	uint64_t entry_ns[RUNS_MAX], end_ns[RUNS_MAX];
	int entry_cnt, end_cnt;
};

int counters_map(int dir_fd, struct map_mapping *ret_stats, uint32_t *ret_rows)
{
	_cleanup_close_ int fd = bpffs_get(dir_fd, map_pin_name(MAPID_STATS), 0);
	struct bpf_map_info info = {};
	__u32 len = sizeof(info);

	if (fd < 0)
		return fd;
	if (bpf_obj_get_info_by_fd(fd, &info, &len))
		return -errno;
	*ret_rows = info.max_entries;
	return map_mmap(fd, info.max_entries * sizeof(struct fsn_stat), ret_stats);
}

/* Adds the counters of @fn at @offset of struct fsn_counts, over all shards. */
static uint64_t counters_sum(const struct counters_of *c, uint32_t fn, size_t offset)
{
	uint64_t sum = 0;

	for (uint32_t row = fn; row < c->row_cnt; row += c->fn_cnt) {
		const char *n = (const char *)&c->stat[row].n;

		sum += __atomic_load_n((const uint64_t *)(n + offset), __ATOMIC_RELAXED);
	}
	return sum;
}

#define SUM_OF(c, fn, name) counters_sum(c, fn, offsetof(struct fsn_counts, name))

static void runs_add(uint64_t *ns, int *cnt, uint64_t took_ns, uint64_t hits)
{
	if (hits && *cnt < RUNS_MAX)
		ns[(*cnt)++] = took_ns / hits;
}

/* Calls @call, which calls @fn, and adds the run times that were measured meanwhile. */
static void runs_watch(const struct counters_of *c, uint32_t fn, struct runs *runs,
	void (*call)(void *arg), void *arg)
{
	uint64_t entry_ns = SUM_OF(c, fn, entry_ns), entry_runs = SUM_OF(c, fn, entry_runs),
		 end_ns = SUM_OF(c, fn, end_ns), end_runs = SUM_OF(c, fn, end_runs);

	call(arg);
	runs_add(runs->entry_ns, &runs->entry_cnt, SUM_OF(c, fn, entry_ns) - entry_ns,
		SUM_OF(c, fn, entry_runs) - entry_runs);
	runs_add(runs->end_ns, &runs->end_cnt, SUM_OF(c, fn, end_ns) - end_ns,
		SUM_OF(c, fn, end_runs) - end_runs);
}


/* Sorts @values. Returns 0 if there are none. */
static uint64_t lower_quartile(uint64_t *values, int cnt)
{
	qsort(values, cnt, sizeof(*values), compare_u64);
	return cnt ? values[cnt / 4] : 0;
}

/* A mean, because a clock may have steps of 10 ns and a single value is then too coarse. */
static uint64_t lower_mean(uint64_t *values, int cnt)
{
	uint64_t sum = 0;
	int half = (cnt + 1) / 2;

	qsort(values, cnt, sizeof(*values), compare_u64);
	for (int i = 0; i < half; i++)
		sum += values[i];
	return half ? sum / half : 0;
}

/* Returns the mean of the lower half, entry and exit added; 0 if there are none. */
static uint64_t runs_usual(struct runs *runs)
{
	return lower_mean(runs->entry_ns, runs->entry_cnt) +
		lower_mean(runs->end_ns, runs->end_cnt);
}

/*
 * System calls: funcsnoop times its own calls while they are targets, one timed and one only
 * counted.
 *
 * Disturbances only ever add time, so the fastest of many windows is used, minus the fastest window
 * of the same calls without probes. The probes slow down all processes for a tenth of a second.
 */

#define CALLS_CACHE   "syscalls"
#define CALLS_CODE_NO 2 /* increment when the measurement changes */
#define CALL_TIMES   100
#define WINDOWS 200

/* In the order of a draft: timed targets are first. */
enum { TIMED, COUNTED, CALL_CNT };

static const struct {
	const char *target;
	long number;
} calls[CALL_CNT] = {
	[TIMED] = { "s:getppid", SYS_getppid },
	[COUNTED] = { "s:getuid", SYS_getuid },
};

struct took {
	uint64_t bare_ns[CALL_CNT], probed_ns[CALL_CNT]; /* of CALL_TIMES calls */
	uint64_t run_ns[CALL_CNT]; /* run time of the BPF programs per call; 0: not known */
};

static uint64_t time_call_window(long number)
{
	uint64_t start = clock_ns(CLOCK_MONOTONIC);

	for (int i = 0; i < CALL_TIMES; i++)
		syscall(number);
	return clock_ns(CLOCK_MONOTONIC) - start;
}

static void time_calls(uint64_t ns[CALL_CNT])
{
	for (int i = 0; i < CALL_CNT; i++)
		ns[i] = UINT64_MAX;
	for (int n = 0; n < WINDOWS; n++)
		for (int i = 0; i < CALL_CNT; i++) {
			uint64_t took = time_call_window(calls[i].number);

			ns[i] = took < ns[i] ? took : ns[i];
		}
}

static void call_window(void *arg)
{
	(void)time_call_window(*(const long *)arg);
}

static int measure_calls(int dir_fd, void *arg)
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

static int calls_draft(struct draft **ret_draft, struct err *err)
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
	snprintf(buf, size, "%d-%016" PRIx64, CALLS_CODE_NO, engine_programs_id());
}

bool calibration_read_calls(struct price *price)
{
	_cleanup_free_ char *text = bootcache_read(CALLS_CACHE);
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
	bootcache_write(CALLS_CACHE, text);
}

static uint32_t more_ns(const struct took *took, int call)
{
	uint64_t bare = took->bare_ns[call], probed = took->probed_ns[call];

	return probed > bare ? (probed - bare) / CALL_TIMES : 1;
}

int calibrate_calls(struct bpffs *fs, struct price *price, struct err *err)
{
	const struct attach_opts attach = { .processes = true, .nesting = true };
	_cleanup_draft_ struct draft *draft = NULL;
	struct took took = {};
	struct price of = {};
	int code = calls_draft(&draft, err);

	time_calls(took.bare_ns);
	if (!code)
		code = attach_measure(draft, &attach, fs, measure_calls, &took, err);
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

/* --- functions: funcsnoop times its own, with all kinds of probes in one attach ------------- */

/*
 * Disturbances only ever add time, and often last for a while: on a busy machine one window of
 * calls can take half as long again as the next. So each window counts with its fastest tenth, and
 * the lowest window is used. If the second lowest is not nearly the same, the result is reported as
 * noise. The correction of a duration must rather be too small than too large.
 *
 * The overhead that calls cause in their caller is subtracted from the caller's self time, often a
 * thousand times, and there too little is as wrong as too much. It is the lower quartile of windows
 * inside a probed call, because a nested call costs a bit more.
 *
 * The run time of the BPF programs is part of both. They measure it here as in any group, so that
 * the run time of a group can be compared with it.
 */

/* --- the probed functions -------------------------------------------------------------------- */

/*
 * In assembly, so that the probed instructions do not depend on the compiler and its options.
 * Half of the functions start with an instruction that kernels emulate, half with one that kernels
 * single-step.
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
#define EARLY    RET /* emulated, so a probe before it would not be cheaper */
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
#define WARM        6  /* warm-up calls, not measured */
#define CALLS       40
#define WINDOWS_MIN 12
#define WINDOWS_MAX 40
#define BUDGET_NS   120000000ULL
#define RUNS_BITS   4  /* measure run time in one call of 16: more would slow down the others */

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

/* --- the draft ------------------------------------------------------------------------------ */

/* Finds the offset in /proc/self/exe of the function at @addr. */
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
 * Sets the exit probe of @f to class @end. All functions were planned with probes on their exits
 * ('early' if there is a jump before the ret).
 */
static void set_end(struct target *f, enum price_end end, const struct plan_rules *rules)
{
	if (end == PRICE_COUNT || (end == PRICE_RETURN && rules->return_unsafe))
		f->plan.exit = PLAN_EXIT_NONE;
	else if (end == PRICE_RETURN)
		f->plan.exit = PLAN_EXIT_RETURN;
}

/*
 * Sets all exit probes, moves the timed functions to the front, and notes the number of each class.
 */
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

/*
 * Drafts a group of the calibration functions of this program, by their file offsets, and sets the
 * places of returns that it is to measure: set_ends().
 */
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

/*
 * Runs in the helper process, which removes the probes and the directory if the command is killed.
 */
static void calibrate_apart(void *arg)
{
	struct calibrating *c = arg;
	struct err err = {};

	attach_measure(c->draft, c->opts, c->fs, measure, &c->windows, &err);
	c->err = err;
	bpffs_leave(c->fs);
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
	err_sys(&c->err, -EINTR, "cannot measure"); /* if the helper process dies */
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
