// SPDX-License-Identifier: BSD-2-Clause
// Counters that limit the accuracy of a group, one row per reason, for readers, JSON and metrics.
#include <stdarg.h>

#include "base/util.h"
#include "group/group.h"
#include "group/stacks.h"
#include "proc/proc.h"
#include "show/call.h"
#include "show/list.h"
#include "show/stats.h"
#include "show/text.h"

bool report_is_frame(const struct report *r)
{
	return r->history || r->view->flags & VIEW_FRAME;
}

#define NOTE_LEN 1024

void report_note(const struct report *r, FILE *f, const char *fmt, ...)
{
	char text[NOTE_LEN];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (report_is_frame(r))
		fprintf(f, "%s\n", text);
	else
		cmd_note(r->g, "%s", text);
}

struct counted counted(uint64_t n, const char *one, const char *more)
{
	struct counted c;

	snprintf(c.text, sizeof(c.text), "%llu %s", (unsigned long long)n, n == 1 ? one : more);
	return c;
}

/* --- reasons: a new one is a row ----------------------------------------------------------------- */

/* Sources of the counters: all functions of a group together. */
struct health_of {
	const struct report *r; /* NULL: nothing is printed */
	const struct report_group *rg;
	FILE *f;
	struct fsn_counts n;
	uint64_t abandoned, shed, undercounted, inner_launches, lost_blocks, live_blocks;
	uint64_t missed, lost_children; /* UINT64_MAX: not known */
};

struct health_row {
	const char *word;       /* key of JSON and label of metrics */
	const char *one, *many; /* after the number; NULL: .note prints more, or readers need none */
	const char *advice;     /* after these */
	/* Where the number is: in struct stats, in .n of struct health_of, or in that itself. */
	enum { IN_STATS, IN_COUNTS, IN_HEALTH } in;
	size_t at;
	void (*note)(const struct health_of *h, uint64_t n);
};

#define STATS(member)  IN_STATS, offsetof(struct stats, member)
#define COUNTS(member) IN_COUNTS, offsetof(struct fsn_counts, member)
#define HEALTH(member) IN_HEALTH, offsetof(struct health_of, member)

#define NOTE(h, ...) report_note((h)->r, (h)->f, __VA_ARGS__)

static void note_sampled(const struct health_of *h, uint64_t n)
{
	uint32_t sample = group_info(h->rg->s->group).sample;

	if (n > h->shed && sample == 1)
		NOTE(h,
			"samples of the calls of some functions are timed: their times and errors "
			"are of these");
	else if (n > h->shed)
		NOTE(h, "one call of %u is timed: times and errors are of these", sample);
}

/* Reports calls that were not timed, and the command that lists their functions. */
static void note_shed(const struct health_of *h, uint64_t n)
{
	const struct stats *s = h->rg->s;
	__cleanup(out_done) struct out out = {};
	_cleanup_asked_ struct asked asked = {};
	char text[NOTE_LEN];

	if (!bound_shed_calls(s, text, sizeof(text)))
		return;
	NOTE(h, "%s", text);
	if (group_info(s->group).kept || asked_read(s->group, &asked) || !asked.argv_bytes)
		return;
	out_command(&out, &asked);
	out_char(&out, '\0');
	NOTE(h, "to leave such functions out:%s --replace", out.buf);
}

static void note_crowded(const struct health_of *h, uint64_t n)
{
	NOTE(h, "%s counted but not timed: too many of process %d in flight",
		counted(n, "call was", "calls were").text, h->rg->s->crowd_pid);
}

/* No call's time has that of a stop, but a process that waits for the stopped one waits longer. */
static void note_stops(const struct health_of *h, uint64_t n)
{
	char took[TEXT_NUM_LEN];

	NOTE(h,
		"%s stopped until its tables or probes were ready, for %s in all: not part of its times",
		counted(n, "time a process was", "times processes were").text,
		text_duration(h->rg->s->paused_ns, took));
}

/* Those of other reasons have rows of their own. */
static void note_no_slot(const struct health_of *h, uint64_t n)
{
	const struct stats *s = h->rg->s;

	n -= s->crowded + s->other_stack + s->too_deep + s->paused_calls;
	if ((int64_t)n <= 0)
		return;
	if (group_info(s->group).gpu)
		NOTE(h, "%s counted but not timed: the driver has lost %s",
			counted(n, "of these was", "of these were").text,
			n == 1 ? "its times" : "their times");
	else
		NOTE(h, "%s counted but not timed: too many calls in progress",
			counted(n, "call was", "calls were").text);
}

static void note_jumped(const struct health_of *h, uint64_t n)
{
	NOTE(h,
		"%s not timed ('funcsnoop list functions %s' shows whose); --probe exit=return would time them, where that is safe",
		counted(n, "call left through a tail call and is", "calls left through tail calls and are").text,
		group_info(h->rg->s->group).name);
}

static void note_unmatched(const struct health_of *h, uint64_t n)
{
	NOTE(h, "%s: begun before, in a parent, or past the entry%s",
		counted(n, "return without its call", "returns without their call").text,
		h->abandoned ? "; or coroutines copy their stack: some abandoned calls have returned"
			     : "");
}

static void note_bulk_frees(const struct health_of *h, uint64_t n)
{
	if (h->live_blocks)
		NOTE(h, "%s may have freed all memory of a device or context: older live memory may be freed",
			counted(n, "call", "calls").text);
}

static void note_inner_launches(const struct health_of *h, uint64_t n)
{
	if (h->r->choice->by_cnt)
		NOTE(h, "up to %s a part of another one: which was made in which is not known, with --without nesting or --sample",
			counted(n, "launch is", "launches are").text);
}

static void note_undercounted(const struct health_of *h, uint64_t n)
{
	NOTE(h, "%s may be too low: the compiler has split inlined code ('funcsnoop list functions %s' shows whose)",
		counted(n, "count", "counts").text, group_info(h->rg->s->group).name);
}

static void note_slow(const struct health_of *h, uint64_t n)
{
	if (h->rg->slow)
		NOTE(h, "%s pushed out by newer ones",
			counted(n, "older slow call was", "older slow calls were").text);
}

static void note_children(const struct health_of *h, uint64_t n)
{
	NOTE(h, "calls of %s not counted: too many ran at once",
		counted(n, "child are", "children are").text);
}

/* In the order of notes. */
static const struct health_row rows[] = {
	{ "sampled_out", NULL, NULL, NULL, COUNTS(sampled_out), note_sampled },
	{ "shed_calls", NULL, NULL, NULL, HEALTH(shed), note_shed },
	{ "crowded", NULL, NULL, NULL, STATS(crowded), note_crowded },
	{ "other_stack", "call was", "calls were",
		"counted but not timed: on a fiber's or signal handler's stack, where return probes are unsafe; use --probe exit=ret to time them",
		STATS(other_stack), NULL },
	{ "too_deep", "call was", "calls were",
		"counted but not timed: the kernel tracks 64 nested calls with return probes; use --probe exit=ret to time them",
		STATS(too_deep), NULL },
	{ "held_times", NULL, NULL, NULL, STATS(pauses), note_stops },
	{ "held_calls", "call was", "calls were",
		"counted but not timed: the process was about to be stopped so",
		STATS(paused_calls), NULL },
	{ "no_slot", NULL, NULL, NULL, COUNTS(no_slot), note_no_slot },
	{ "left_by_jump", NULL, NULL, NULL, COUNTS(jumped), note_jumped },
	{ "inner", NULL, NULL, NULL, COUNTS(inner), NULL },
	{ "unseen", "call was", "calls were",
		"in progress when a link was replaced, or began meanwhile: counted, not timed", COUNTS(unseen), NULL },
	{ "unmatched_returns", NULL, NULL, NULL, COUNTS(unmatched), note_unmatched },
	{ "lost_codes", "failed call is", "failed calls are",
		"missing by return code: too many codes", STATS(lost_codes), NULL },
	{ "lost_processes", "call is", "calls are", "missing by process: too many processes",
		STATS(lost_processes), NULL },
	{ "bulk_frees", NULL, NULL, NULL, STATS(bulk_frees), note_bulk_frees },
	{ "lost_stacks", "stack is", "stacks are", "not known: too many different ones",
		STATS(lost_stacks), NULL },
	{ "lost_python", "frame is", "frames are",
		"the interpreter's: their Python functions could not be read", STATS(lost_python), NULL },
	{ "lost_texts", "key was", "keys were", "not read: the text was not in memory",
		STATS(lost_texts), NULL },
	{ "lost_conditions", "call was", "calls were",
		"not counted: the text that --if compares was not in memory",
		STATS(lost_conditions), NULL },
	{ "undercounted", NULL, NULL, NULL, HEALTH(undercounted), note_undercounted },
	{ "missed", "entry or return was", "entries and returns were",
		"not traced since the attach: the kernel skips a BPF program that is already running",
		HEALTH(missed), NULL },
	{ "inner_launches", NULL, NULL, NULL, HEALTH(inner_launches), note_inner_launches },
	{ "lost_slow", NULL, NULL, NULL, STATS(lost_slow), note_slow },
	{ "cpus_off", "CPU was switched off", "CPUs were switched off",
		"since the attach, and not sampled, also when back: attach again", STATS(cpus_off),
		NULL },
	{ "lost_children", NULL, NULL, NULL, HEALTH(lost_children), note_children },
};

_Static_assert(ARRAY_SIZE(rows) <= HEALTH_MAX, "room for all reasons");

static struct health_of health_of(const struct report_group *rg)
{
	const struct stats *s = rg->s;
	_cleanup_asked_ struct asked asked;
	struct health_of h = { .rg = rg, .inner_launches = report_inner_launches(rg) };

	h.missed = s->has_missed ? s->missed : UINT64_MAX;
	h.lost_children = asked_read(s->group, &asked) ? UINT64_MAX : asked.lost_children;
	for (size_t i = 0; i < s->func_cnt; i++) {
		const struct stats_func *f = &s->funcs[i];

		counts_add(&h.n, &f->n);
		h.abandoned += f->abandoned;
		h.lost_blocks += f->memory.n.lost_blocks;
		h.live_blocks += f->memory.n.live_blocks;
		h.undercounted += f->n.calls && group_func(s->group, f->fn).undercounted;
		if (stats_is_shed(s->group, f->fn, &f->n))
			h.shed += f->n.sampled_out;
	}
	return h;
}

static uint64_t number_of(const struct health_of *h, const struct health_row *row)
{
	const void *const from[] = { [IN_STATS] = h->rg->s, [IN_COUNTS] = &h->n, [IN_HEALTH] = h };

	return *(const uint64_t *)((const char *)from[row->in] + row->at);
}

size_t health_read(const struct report_group *rg, struct health ret[HEALTH_MAX])
{
	const struct health_of h = health_of(rg);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t n = number_of(&h, &rows[i]);

		ret[i] = (struct health) { rows[i].word, n != UINT64_MAX, n };
	}
	return ARRAY_SIZE(rows);
}

/* --- notes about stacks, CPUs and GPUs ------------------------------------------------------- */

static void print_stackless(const struct report *r, const struct report_group *rg, FILE *f)
{
	uint64_t calls[FSN_WALK_ENDS], dropped = 0, ended = 0;

	if (!stacks_ends(rg, calls))
		return;
	for (size_t i = 0; i < rg->s->func_cnt; i++) {
		dropped += rg->s->funcs[i].others.n.calls;
		ended += rg->s->funcs[i].rows_ended.n.calls;
	}
	if (dropped || ended)
		report_note(r, f, "%s not in the stacks: too many rows (--limit rows=N), %llu of exited processes",
			counted(dropped + ended, "call is", "calls are").text,
			(unsigned long long)ended);
}

void stackless_notes(const struct report *r)
{
	for (size_t i = 0; i < r->cnt && !report_is_frame(r); i++)
		print_stackless(r, &r->group[i], NULL);
}

static bool is_by(const struct report *r, const char *key)
{
	return ANY_WHERE(r->choice->by_cnt, i, !strcmp(r->choice->by[i], key));
}

/* True if the table is of processes, or of other keys than stacks. */
static bool shows_no_stacks(const struct report *r)
{
	if (r->view->flags & (VIEW_PROCESSES | VIEW_CGROUPS))
		return true;
	return r->choice->by_cnt && !is_by(r, "stack") && !is_by(r, "waker_stack");
}

/* Prints the share of complete stacks, and the most frequent reason of the truncated ones. */
static void print_ends(const struct report *r, const struct report_group *rg, FILE *f)
{
	uint64_t calls[FSN_WALK_ENDS], all = 0, whole;
	int most = FSN_WALK_DEEP;
	char by[256] = "";

	if (!stacks_ends(rg, calls))
		return;
	for (int i = 0; i < FSN_WALK_ENDS; i++) {
		all += calls[i];
		if (i > FSN_WALK_DEEP && calls[i] > calls[most])
			most = i;
	}
	if (calls[FSN_WALK_OUTERMOST] == all)
		return;
	whole = 1000 * calls[FSN_WALK_OUTERMOST] / all;
	if (most == FSN_WALK_NO_TABLE)
		stacks_cut_by(rg, by, sizeof(by));
	report_note(r, f, "%u.%u %% of stacks are complete; most others %s%s", (unsigned int)whole / 10,
		(unsigned int)whole % 10, stack_end_text(most), by);
}

static void print_nameless(const struct report *r, const struct report_group *rg, FILE *f)
{
	pid_t pid = rg->stacks ? stacks_nameless(rg->stacks) : 0;
	char hint[TEXT_JIT_LEN];

	if (pid)
		report_note(r, f, "%s", text_jit(pid, hint));
}

static void print_optimized(const struct report *r, const struct report_group *rg, FILE *f)
{
	if (rg->stacks && stacks_optimized(rg->stacks))
		report_note(r, f, "'JS:*' is optimized code and can contain functions that V8 has inlined; "
			"'node --no-turbo-inlining' calls them");
}

static bool is_of_python(const char *caller)
{
	static const char *const starts[] = { "Py", "_Py", "python3", "libpython3" };

	return ANY_WHERE(ARRAY_SIZE(starts), i, !strncmp(caller, starts[i], strlen(starts[i])));
}

/* The same function of an interpreter calls for all lines of its program. */
static void print_interpreted(const struct report *r, const struct report_group *rg, FILE *f)
{
	uint64_t calls = 0, python = 0;

	for (size_t i = 0; is_by(r, "caller") && i < rg->s->func_cnt; i++)
		for (size_t k = 0; k < rg->s->funcs[i].row_cnt; k++) {
			const struct stats_row *row = &rg->s->funcs[i].rows[k];

			calls += row->n.calls;
			if (row->place && is_of_python(row->place))
				python += row->n.calls;
		}
	if (2 * python > calls)
		report_note(r, f, "most callers are functions of Python's interpreter: --by stack names lines of the program");
}

/* Reports calls whose result is not in a sum, because their return is not traced. */
static void print_resultless(const struct report *r, const struct report_group *rg, FILE *f)
{
	uint64_t n = 0;

	for (size_t i = 0; rg->keys.funcs && i < rg->s->func_cnt; i++)
		if (func_sums_result(&rg->keys.funcs[rg->s->funcs[i].fn]))
			n += stats_func_unfollowed(&rg->s->funcs[i]);
	if (n)
		report_note(r, f, "%s not in the sums of results, because %s not timed",
			counted(n, "call is", "calls are").text, n == 1 ? "it was" : "they were");
}

static void print_cpus(const struct report *r, const struct report_group *rg, FILE *f)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN), sampled;

	sampled = group_info(rg->s->group).sampled_cpus;
	if (sampled && cpus > sampled)
		report_note(r, f, "%s since the attach, and not sampled",
			counted(cpus - sampled, "CPU has come", "CPUs have come").text);
}

#define GPU_IDLE_S 10 /* libcupti delivers its records every second */

/* Prints the processes without GPU records, or with lost ones. */
static void print_gpus(const struct report *r, const struct report_group *rg, FILE *f)
{
	uint64_t kernels, known;

	for (size_t i = 0; i < rg->whole->gpu_cnt; i++) {
		const struct fsn_gpu *said = &rg->whole->gpus[i].said;
		int pid = rg->whole->gpus[i].pid;
		_cleanup_free_ char *who = text_escape(said->who);

		if (said->period_s)
			report_note(r, f, "process %d: counts are of windows: %u s of each %u s are recorded", pid,
				said->window_s, said->period_s);
		if (said->state == FSN_GPU_REFUSED)
			report_note(r, f, "process %d: its GPU times are not known: %s refuses with %d", pid, who,
				said->code);
		else if (said->state == FSN_GPU_NO_LIB)
			report_note(r, f, "process %d: its GPU times are not known: there is no libcupti", pid);
		else if (said->state == FSN_GPU_TAKEN)
			report_note(r, f, "process %d: its GPU times are not known: %s has libcupti", pid, who);
		else if (said->idle_s >= GPU_IDLE_S)
			report_note(r, f, "process %d: no record for %u s: its GPU does nothing, or another profiler has them",
				pid, said->idle_s);
		if (said->dropped)
			report_note(r, f, "process %d: %s dropped %llu records", pid, who, said->dropped);
	}
	if (rg->whole->gpu_cnt >= FSN_GPUS)
		report_note(r, f, "the state of other processes than these %u is not known: table full", FSN_GPUS);
	if (stacks_of_launches(rg, &kernels, &known))
		report_note(r, f, "of %s the launches of %llu have a stack",
			counted(kernels, "kernel", "kernels").text, (unsigned long long)known);
}

void health_notes(const struct report *r, const struct report_group *rg, FILE *f)
{
	struct health_of h = health_of(rg);

	h.r = r;
	h.f = f;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct health_row *row = &rows[i];
		uint64_t n = number_of(&h, row);

		if (!n || n == UINT64_MAX)
			continue;
		if (row->note)
			row->note(&h, n);
		else if (row->one)
			NOTE(&h, "%s %s", counted(n, row->one, row->many).text, row->advice);
	}
	if (h.lost_blocks)
		NOTE(&h, "%s not in the live memory: table full; attach the group again with --replace --limit allocations=N",
			counted(h.lost_blocks, "block is", "blocks are").text);
	if (!shows_no_stacks(r)) {
		print_ends(r, rg, f);
		print_stackless(r, rg, f);
	}
	print_nameless(r, rg, f);
	print_optimized(r, rg, f);
	print_interpreted(r, rg, f);
	print_resultless(r, rg, f);
	print_cpus(r, rg, f);
	print_gpus(r, rg, f);
	if (r->choice->by_cnt && rg->by_cnt && !report_keys_known(rg))
		NOTE(&h, "keys of group '%s' are for its owner only", group_info(rg->s->group).name);
}
