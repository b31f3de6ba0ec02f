// SPDX-License-Identifier: BSD-2-Clause
// Formats that show a view: the table for readers, CSV, the JSON document; a list of all.
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "group/group.h"
#include "group/stacks.h"
#include "proc/proc.h"
#include "show/call.h"
#include "show/list.h"
#include "show/stats.h"
#include "show/text.h"

/* --- the table ------------------------------------------------------------------------------ */

/* Whether it is one of many on a screen, which has all that is said. */
static bool is_frame(const struct report *r)
{
	return r->history || r->view->flags & VIEW_FRAME;
}

static void print_head(const struct report *r, const struct report_group *rg, FILE *f)
{
	uint64_t calls = stats_all_calls(rg->s);
	char when[TEXT_NUM_LEN], rate[TEXT_NUM_LEN];
	double per_s;

	if (r->timestamps)
		fprintf(f, "%s ", text_time(r->time_ns, when));
	if (r->interval_ns)
		fprintf(f, "%s in %s", group_info(rg->s->group).name,
			text_duration(r->interval_ns, when));
	else if (rg->diff)
		fprintf(f, "%s since %s, compared", group_info(rg->s->group).name,
			text_time(rg->s->since_ns, when));
	else
		fprintf(f, "%s since %s", group_info(rg->s->group).name,
			text_time(rg->s->since_ns, when));
	if (r->view->flags & VIEW_PACE && calls && report_rate(rg, calls, &per_s))
		fprintf(f, ", %s calls/s", grid_rate(per_s, rate));
	fputc('\n', f);
}

/* Why nothing was counted: nobody has the library, or those who do have not called. */
static void explain_empty(const struct stats *s, struct procs *procs, FILE *f)
{
	char when[TEXT_NUM_LEN];

	fprintf(f, "attached since %s\n", text_time(s->attached_ns, when));
	for (uint32_t i = 0; i < group_info(s->group).lib_cnt; i++) {
		_cleanup_free_ char *path = text_escape(group_lib(s->group, i));
		size_t cnt = 0;
		pid_t pid = 0;
		int code = group_lib_mappers(s->group, i, procs, &cnt, &pid, NULL);

		if (group_lib_stale(s->group, i))
			fprintf(f, "%s is another file now: attach again\n", path);
		else if (!code && !cnt)
			fprintf(f, "no process maps %s\n", path);
		else if (!code && cnt == 1)
			fprintf(f, "process %d maps %s and has not called\n", pid, path);
		else if (!code)
			fprintf(f, "%zu processes map %s and have not called\n", cnt,
				path);
	}
}

#define COST_UNKNOWN_TEXT  "cost: not known, as the attach did not measure it\n"
#define COST_ESTIMATE_TEXT "estimated from 'feature --calibrate'"

/* "probes took 260 ms of these 575 ms" */
static void print_cost_sum(const struct report *r, const struct report_group *rg, FILE *f)
{
	char took[TEXT_NUM_LEN], elapsed[TEXT_NUM_LEN];
	uint64_t ns;

	if (!report_cost(rg, &ns)) {
		if (r->past)
			fprintf(f, COST_UNKNOWN_TEXT);
		return;
	}
	fprintf(f, "probes took %s%s", r->past ? "~" : "", text_duration(ns, took));
	if (rg->elapsed_ns)
		fprintf(f, " of these %s", text_duration(rg->elapsed_ns, elapsed));
	fprintf(f, "%s\n", r->past ? "; " COST_ESTIMATE_TEXT : "");
}

/* What the programs take; an estimate is marked as one. */
static void print_cost(const struct report *r, const struct report_group *rg, FILE *f)
{
	bool estimate = rg->cost.source == COST_CALIBRATED;
	char cost[TEXT_NUM_LEN], share[TEXT_NUM_LEN] = "";

	if (rg->cost.source == COST_UNKNOWN) {
		if (!r->interval_ns && !is_frame(r))
			fprintf(f, COST_UNKNOWN_TEXT);
		return;
	}
	if (rg->cost.ns_per_s >= 100000)
		snprintf(share, sizeof(share), ", %.3g %% of a CPU",
			rg->cost.ns_per_s / 1e7);
	fprintf(f, "cost: %s%s/s%s; %s\n", estimate ? "~" : "",
		text_duration(rg->cost.ns_per_s, cost), share,
		estimate ? COST_ESTIMATE_TEXT
			 : "counted by the kernel, without traps");
}

/* "1 call was", "2 calls were": the words behind the number are of one, and of more. */
struct counted {
	char text[64];
};

static struct counted counted(uint64_t n, const char *one, const char *more)
{
	struct counted c;

	snprintf(c.text, sizeof(c.text), "%llu %s", (unsigned long long)n, n == 1 ? one : more);
	return c;
}

/* What is not in the table's columns. */
static void print_foot(const struct report *r, const struct report_group *rg, FILE *f)
{
	uint64_t in_flight = 0, abandoned = 0, unswept = 0;
	const char *name = group_info(rg->s->group).name;

	for (size_t i = 0; i < rg->s->func_cnt; i++) {
		if (rg->s->funcs[i].unswept)
			unswept += rg->s->funcs[i].in_flight;
		else
			in_flight += rg->s->funcs[i].in_flight;
		abandoned += rg->s->funcs[i].abandoned;
	}
	if (in_flight && r->past) /* the group is about to go */
		fprintf(f, "in flight: %s\n", counted(in_flight, "call", "calls").text);
	else if (in_flight)
		fprintf(f, "in flight: %s; 'funcsnoop list inflight %s' shows %s\n",
			counted(in_flight, "call", "calls").text, name,
			in_flight == 1 ? "it" : "them");
	if (unswept)
		fprintf(f, "in flight: at most %s; only the owner of the group can see which threads still run\n",
			counted(unswept, "call", "calls").text);
	if (abandoned)
		fprintf(f, "abandoned: %s can't return any more\n",
			counted(abandoned, "call", "calls").text);
}

#define NOTE_LEN 1024

/* On stderr, but within the frame of --watch. */
__attribute__((format(printf, 3, 4))) static void note(
	const struct report *r, FILE *f, const char *fmt, ...)
{
	char text[NOTE_LEN];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (is_frame(r))
		fprintf(f, "%s\n", text);
	else
		cmd_note(r->g, "%s", text);
}

/* Programs that start from now on have the new file, and none of its calls counts. */
static void print_stale(const struct report *r, const struct report_group *rg, FILE *f)
{
	const struct group *g = rg->s->group;

	for (uint32_t i = 0; i < group_info(g).lib_cnt; i++) {
		_cleanup_free_ char *path = text_escape(group_lib(g, i));

		if (group_lib_stale(g, i))
			note(r, f,
				"%s is another file now, is gone or was rewritten: attach again",
				path);
	}
}

/* Calls that are not made any more, and those of children that could not be followed. */
static void print_ended(const struct report *r, const struct report_group *rg, FILE *f)
{
	_cleanup_asked_ struct asked asked;
	char text[200];

	if (asked_read(rg->s->group, &asked, NULL))
		return;
	/* That the command which a run began is over is what the run has waited for. */
	if (!(r->past && !asked.pid_cnt) &&
		text_over(group_info(rg->s->group).name, &asked, text, sizeof(text)))
		note(r, f, "%s", text);
	if (asked.lost_children)
		note(r, f, "calls of %s not counted: too many ran at once",
			counted(asked.lost_children, "child are", "children are").text);
}

/* How many stacks are whole, and why most of the others are not. */
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
	note(r, f, "%u.%u %% of stacks are whole; of the others most %s%s", (unsigned int)whole / 10,
		(unsigned int)whole % 10, stack_end_text(most), by);
}

/* How JIT code that was printed as an address gets names. */
static void print_nameless(const struct report *r, const struct report_group *rg, FILE *f)
{
	static const struct {
		const char *program, *hint;
	} hints[] = {
		{ "node", "start it with 'node --perf-basic-prof'" },
		{ "java", "'jcmd PID Compiler.perfmap' writes them (JDK 17)" },
		{ "python", "start it with 'python3 -X perf' (Python 3.12)" },
	};
	const char *hint = "it writes no /tmp/perf-PID.map";
	pid_t pid = rg->stacks ? stacks_nameless(rg->stacks) : 0;
	char exe[64], path[PATH_MAX];
	ssize_t len;

	if (!pid)
		return;
	snprintf(exe, sizeof(exe), "/proc/%d/exe", pid);
	len = readlink(exe, path, sizeof(path) - 1);
	path[len > 0 ? len : 0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(hints); i++)
		if (!strncmp(basename(path), hints[i].program, strlen(hints[i].program)))
			hint = hints[i].hint;
	note(r, f, "JIT code of process %d has no names: %s", pid, hint);
}

static void print_cpus(const struct report *r, const struct report_group *rg, FILE *f)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN), sampled;

	sampled = group_info(rg->s->group).sampled_cpus;
	if (sampled && cpus > sampled)
		note(r, f, "%s since the attach, and not sampled",
			counted(cpus - sampled, "CPU has come", "CPUs have come").text);
	if (rg->s->cpus_off)
		note(r, f, "%s since the attach, and not sampled, also when back: attach again",
			counted(rg->s->cpus_off, "CPU was switched off", "CPUs were switched off").text);
}

/* No call's time has that of a stop, but whoever waits for such a process waits longer. */
static void print_pauses(const struct report *r, const struct stats *s, FILE *f)
{
	char took[TEXT_NUM_LEN];

	if (s->pauses)
		note(r, f,
			"%s stopped until there were tables or probes, for %s in all, which is in no time but of others that waited for it",
			counted(s->pauses, "time a process was", "times processes were").text,
			text_duration(s->paused_ns, took));
	if (s->paused_calls)
		note(r, f, "%s counted but not timed: the process was about to be stopped so",
			counted(s->paused_calls, "call was", "calls were").text);
}

/* What there was no room for, or could not be read. */
static void print_lost(const struct report *r, const struct stats *s, FILE *f)
{
	uint64_t blocks = 0, live = 0;

	for (size_t i = 0; i < s->func_cnt; i++) {
		blocks += s->funcs[i].memory.n.lost_blocks;
		live += s->funcs[i].memory.n.live_blocks;
	}
	if (blocks)
		note(r, f,
			"%s not among what is held: no room; attach the group again with --replace --blocks N",
			counted(blocks, "block is", "blocks are").text);
	if (s->bulk_frees && live)
		note(r, f, "%s may have given back all memory of a device or context: what is held from before may be of that",
			counted(s->bulk_frees, "call", "calls").text);
	if (s->lost_stacks)
		note(r, f, "%s not known: too many different ones",
			counted(s->lost_stacks, "stack is", "stacks are").text);
	if (s->lost_python)
		note(r, f, "%s not those of Python: what these are could not be read",
			counted(s->lost_python, "frame is the interpreter's,", "frames are the interpreter's,").text);
	if (s->lost_texts)
		note(r, f, "%s not read: what they are was not in memory",
			counted(s->lost_texts, "key was", "keys were").text);
	if (s->lost_conditions)
		note(r, f, "%s not counted: the text that --if compares was not in memory",
			counted(s->lost_conditions, "call was", "calls were").text);
}

#define GPU_IDLE_S 10 /* libcupti hands out what it has each second */

/* Of which processes nothing is seen, or not all; what has ended would only be in the way. */
static void print_gpus(const struct report *r, const struct report_group *rg, FILE *f)
{
	uint64_t kernels, known;

	for (size_t i = 0; i < rg->whole->gpu_cnt; i++) {
		const struct fsn_gpu *said = &rg->whole->gpus[i].said;
		int pid = rg->whole->gpus[i].pid;
		_cleanup_free_ char *who = text_escape(said->who);

		if (said->period_s)
			note(r, f, "process %d: counts are of windows: %u s of each %u s are recorded", pid,
				said->window_s, said->period_s);
		if (said->state == FSN_GPU_REFUSED)
			note(r, f, "process %d: its GPU times are not known: %s refuses with %d", pid, who,
				said->code);
		else if (said->state == FSN_GPU_NO_LIB)
			note(r, f, "process %d: its GPU times are not known: there is no libcupti", pid);
		else if (said->state == FSN_GPU_TAKEN)
			note(r, f, "process %d: its GPU times are not known: %s has libcupti", pid, who);
		else if (said->idle_s >= GPU_IDLE_S)
			note(r, f, "process %d: no record for %u s: its GPU does nothing, or another profiler has them",
				pid, said->idle_s);
		if (said->dropped)
			note(r, f, "process %d: %s had no room for %llu records", pid, who, said->dropped);
	}
	if (rg->whole->gpu_cnt >= FSN_GPUS)
		note(r, f, "what other processes than these %u say of theirs had no room", FSN_GPUS);
	if (stacks_of_launches(rg, &kernels, &known))
		note(r, f, "of %s the launches of %llu have a stack",
			counted(kernels, "kernel", "kernels").text, (unsigned long long)known);
}

/* Calls that the programs did not time, and the command line that leaves such functions out. */
static void print_shed(const struct report *r, const struct stats *s, FILE *f)
{
	__cleanup(out_done) struct out out = {};
	_cleanup_asked_ struct asked asked = {};
	char text[NOTE_LEN];

	if (!bound_shed_calls(s, text, sizeof(text)))
		return;
	note(r, f, "%s", text);
	if (group_info(s->group).kept || asked_read(s->group, &asked, NULL) || !asked.argv_bytes)
		return;
	out_command(&out, &asked);
	out_char(&out, '\0');
	note(r, f, "to leave such functions out:%s --replace", out.buf);
}

/* What makes a number doubtful. */
static void print_health(const struct report *r, const struct report_group *rg, FILE *f)
{
	const struct stats *s = rg->s;
	uint64_t no_slot = 0, unmatched = 0, sampled = 0, abandoned = 0, jumped = 0;
	uint32_t sample = group_info(s->group).sample;

	for (size_t i = 0; i < s->func_cnt; i++) {
		no_slot += s->funcs[i].n.no_slot;
		unmatched += s->funcs[i].n.unmatched;
		abandoned += s->funcs[i].abandoned;
		if (!stats_is_shed(s->group, s->funcs[i].fn, &s->funcs[i].n))
			sampled += s->funcs[i].n.sampled_out;
		jumped += s->funcs[i].n.jumped;
	}
	if (sampled && sample == 1)
		note(r, f,
			"samples of the calls of some functions are timed: their times and errors "
			"are of these");
	else if (sampled)
		note(r, f, "one call of %u is timed: times and errors are of these",
			sample);
	print_shed(r, s, f);
	if (s->crowded)
		note(r, f,
			"%s counted but not timed: too many of process %d in flight",
			counted(s->crowded, "call was", "calls were").text, s->crowd_pid);
	if (s->other_stack)
		note(r, f,
			"%s counted but not timed: on a fiber's or signal handler's stack, where return probes are unsafe; use --exit ret to time them",
			counted(s->other_stack, "call was", "calls were").text);
	if (s->too_deep)
		note(r, f,
			"%s counted but not timed: the kernel tracks 64 nested calls with return probes; use --exit ret to time them",
			counted(s->too_deep, "call was", "calls were").text);
	print_pauses(r, s, f);
	no_slot -= s->crowded + s->other_stack + s->too_deep + s->paused_calls;
	if ((int64_t)no_slot > 0 && group_info(s->group).gpu)
		note(r, f, "%s counted but not timed: the driver has lost %s",
			counted(no_slot, "of these was", "of these were").text,
			no_slot == 1 ? "its times" : "their times");
	else if ((int64_t)no_slot > 0)
		note(r, f,
			"%s counted but not timed: no place for one more in flight",
			counted(no_slot, "call was", "calls were").text);
	if (jumped)
		note(r, f,
			"%s not timed ('funcsnoop list functions %s' shows whose); --exit return would see their ends, where that is safe",
			counted(jumped, "call left by a jump and is",
				"calls left by a jump and are")
				.text,
			group_info(s->group).name);
	if (unmatched)
		note(r, f,
			"%s: begun before, in a parent, or past the entry%s",
			counted(unmatched, "return without its call",
				"returns without their call")
				.text,
			abandoned ? "; or coroutines copy their stack: some of the "
				    "calls given up have returned, too" :
				    "");
	if (s->lost_codes)
		note(r, f, "%s missing by return code: too many codes",
			counted(s->lost_codes, "failed call is", "failed calls are").text);
	if (s->lost_processes)
		note(r, f, "%s missing by process: too many processes",
			counted(s->lost_processes, "call is", "calls are").text);
	print_ends(r, rg, f);
	print_nameless(r, rg, f);
	print_cpus(r, rg, f);
	print_gpus(r, rg, f);
	print_lost(r, s, f);
	if (s->missed)
		note(r, f, "%s not seen since the attach: the kernel leaves a program out where it runs already",
			counted(s->missed, "entry or end was", "entries and ends were").text);
	if (r->choice->by_cnt && report_inner_launches(rg))
		note(r, f, "up to %s a part of another one: which was made in which is not known, with --no-nesting or --sample",
			counted(report_inner_launches(rg), "launch is", "launches are").text);
	if (r->choice->by_cnt && rg->by_cnt && !report_keys_known(rg))
		note(r, f, "keys of group '%s' are for its owner only", group_info(s->group).name);
	if (s->lost_slow && rg->slow)
		note(r, f, "%s pushed out by newer ones",
			counted(s->lost_slow, "older slow call was", "older slow calls were")
				.text);
}

static const char not_kept[] =
	"who called whom is not known: it was attached with --no-nesting, or calls are sampled";

static int table_group(
	const struct report *r, const struct report_group *rg, struct procs *procs, FILE *f)
{
	const struct view *view = r->view;
	_cleanup_grid_ struct grid grid = {};

	report_begin_grid(r, &grid);
	grid.is_table = true;
	print_head(r, rg, f);
	view->fill(&grid, r, rg);
	if (grid.failed)
		return -ENOMEM;
	if (r->history)
		history_trends(r->history, group_info(rg->s->group).name, !r->choice->top, &grid);
	if (!grid.row_cnt) {
		fprintf(f, "%s\n", rg->tree && !rg->s->paths ? not_kept : view->none);
		if (!rg->func_cnt && !r->interval_ns)
			explain_empty(rg->whole, procs, f);
	} else if (view->text) {
		view->text(r, rg, f);
	} else {
		grid_print(&grid, r->g, r->plain, f);
	}
	if (view->flags & VIEW_REST)
		print_foot(r, rg, f);
	if (grid.row_cnt && view->flags & VIEW_COST) {
		if (!r->past)
			print_cost(r, rg, f);
		print_cost_sum(r, rg, f);
	}
	if (grid.row_cnt)
		print_stale(r, rg, f);
	print_health(r, rg, f);
	print_ended(r, rg, f);
	return 0;
}

static int print_table(const struct report *r, FILE *f)
{
	_cleanup_procs_ struct procs *procs = NULL;
	int code = procs_new("/proc", &procs, NULL);

	for (size_t i = 0; !code && i < r->cnt; i++) {
		if (i || !r->first)
			fputc('\n', f);
		code = table_group(r, &r->group[i], procs, f);
	}
	return code;
}

/* --- CSV ----------------------------------------------------------------------------------------- */

static int csv_print(const struct report *r, FILE *f)
{
	const struct view *view = r->view;
	char prefix[TEXT_NUM_LEN * 3], when[TEXT_NUM_LEN];
	struct grid head = {};
	int code = 0;

	report_begin_grid(r, &head);
	if (r->first)
		csv_header(&head, "time,group", f);
	for (size_t i = 0; !code && i < r->cnt; i++) {
		_cleanup_grid_ struct grid grid = head;

		view->fill(&grid, r, &r->group[i]);
		/* A group's name needs no quotes. */
		snprintf(prefix, sizeof(prefix), "%s,%s", text_time(r->time_ns, when),
			group_info(r->group[i].s->group).name);
		code = grid.failed ? -ENOMEM : 0;
		if (!code)
			csv_rows(&grid, prefix, f);
	}
	return code;
}

/* --- JSON ----------------------------------------------------------------------------------- */

static void add_codes(struct json *j, const struct stats_func *f)
{
	json_set_open(j, "return_codes", '[');
	for (size_t i = 0; i < f->code_cnt; i++) {
		json_open(j, '{');
		json_set_i64(j, "code", f->codes[i].code);
		json_set_str(j, "name", f->codes[i].name);
		json_set_u64(j, "count", f->codes[i].count);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void add_histogram(struct json *j, const struct stats_func *f)
{
	uint64_t ge, lt;

	json_set_open(j, "histogram", '[');
	for (unsigned int i = 0; f->bucket && i < FSN_HIST_CNT; i++) {
		if (!f->bucket[i])
			continue;
		hist_bounds(i, &ge, &lt);
		json_open(j, '{');
		json_set_u64(j, "ge_ns", ge);
		json_set_u64(j, "lt_ns", lt);
		json_set_u64(j, "count", f->bucket[i]);
		json_close(j, '}');
	}
	json_close(j, ']');
}

/* Null: it is not known. */
static void add_cgroup(struct json *j, const struct cgroup *c)
{
	if (!c) {
		json_set_null(j, "cgroup");
		return;
	}
	json_set_open(j, "cgroup", '{');
	json_set_str(j, "path", c->path);
	json_add_cgroup(j, c);
	json_close(j, '}');
}

static void add_processes(
	struct json *j, const struct report_group *rg, const struct stats_func *f)
{
	struct figures values;

	json_set_open(j, "processes", '[');
	for (size_t i = 0; i < f->proc_cnt; i++) {
		json_open(j, '{');
		json_set_u64(j, "pid", f->procs[i].pid);
		json_set_str(j, "comm", f->procs[i].comm);
		add_cgroup(j, stats_cgroup(rg->whole, &f->procs[i]));
		figures_of_process(&f->procs[i], f, NULL, &values);
		json_add_figures(j, USE_PROCESS_DOCUMENT, &values);
		json_close(j, '}');
	}
	json_close(j, ']');
}

/* What processes had whose records were given up; null when there is none. */
static void add_ended(struct json *j, const struct stats_func *f)
{
	struct figures values;

	if (!f->ended.n.calls && !f->ended.n.returns) {
		json_set_null(j, "ended");
		return;
	}
	json_set_open(j, "ended", '{');
	figures_of_process(&f->ended, f, NULL, &values);
	json_add_figures(j, USE_PROCESS_DOCUMENT, &values);
	json_close(j, '}');
}

/* Where its calls slept. */
static void add_sleeps(struct json *j, const struct report_group *rg, const struct stats_func *f)
{
	json_set_open(j, "blocked_in", '[');
	for (size_t i = 0; i < f->sleep_cnt; i++) {
		const struct stats_row *row = &f->sleeps[i];

		json_open(j, '{');
		json_set_u64(j, "pid", row->pid);
		json_set_u64(j, "stack", row->key.word[0]);
		json_add_stack(j, rg->stacks, row->key.word[0], row->pid);
		json_set_u64(j, "sleeps", row->n.calls);
		json_set_u64(j, "blocked_ns", row->n.blocked_ns);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void add_sums(struct json *j, const struct report_group *rg, uint32_t fn,
	const struct stats_row *row)
{
	const struct func_part *sum = rg->keys.funcs[fn].sum;

	json_set_open(j, "sums", '{');
	for (size_t i = 0; i < rg->keys.sum_cnt; i++)
		if (sum[i].by == FSN_BY_NONE)
			json_set_null(j, rg->keys.sum[i]);
		else if (sum[i].is_signed)
			json_set_i64(j, rg->keys.sum[i], (int64_t)row->sum[i]);
		else
			json_set_u64(j, rg->keys.sum[i], row->sum[i]);
	json_close(j, '}');
}

static void add_row_figures(struct json *j, const struct report_group *rg,
	const struct stats_func *f, const struct stats_row *row)
{
	struct figures values;

	figures_of_row(row, f, NULL, &values);
	json_add_figures(j, USE_ROW_DOCUMENT, &values);
	add_sums(j, rg, f->fn, row);
}

static void add_rest(struct json *j, const char *key, const struct report_group *rg,
	const struct stats_func *f, const struct stats_row *row)
{
	if (!rg->keys.funcs || stats_row_is_empty(row)) {
		json_set_null(j, key);
		return;
	}
	json_set_open(j, key, '{');
	add_row_figures(j, rg, f, row);
	json_close(j, '}');
}

static void add_rows(struct json *j, const struct report_group *rg, const struct types *types,
	const struct stats_func *f)
{
	json_set_open(j, "rows", '[');
	for (size_t i = 0; rg->keys.funcs && types && i < f->row_cnt; i++) {
		const struct stats_row *row = &f->rows[i];
		bool known;

		json_open(j, '{');
		json_set_u64(j, "pid", row->pid);
		json_set_str(j, "comm", row->comm);
		known = rg->s->keys_known || row->hidden != (1U << rg->keys.key_cnt) - 1;
		if (known)
			keys_json(j, &rg->keys, f->fn, types_of(types, f->fn), row);
		else
			json_set_null(j, "key");
		add_row_figures(j, rg, f, row);
		json_close(j, '}');
	}
	json_close(j, ']');
	add_rest(j, "other_rows", rg, f, &f->others);
	add_rest(j, "ended_rows", rg, f, &f->rows_ended);
}

static void add_function(
	struct json *j, const struct report_group *rg, const struct types *types,
	const struct stats_func *f)
{
	const struct figure_scope scope = { .elapsed_ns = rg->elapsed_ns };
	struct group_func func = group_func(rg->s->group, f->fn);
	struct figures values;

	json_open(j, '{');
	json_set_u64(j, "id", f->fn);
	json_set_str(j, "name", func.name);
	json_set_str(j, "symbol", func.symbol);
	json_set_str(j, "library", func.library);
	figures_of(f, &scope, figure_mask(USE_DOCUMENT), &values);
	json_add_figures(j, USE_DOCUMENT, &values);
	add_codes(j, f);
	add_histogram(j, f);
	add_processes(j, rg, f);
	add_ended(j, f);
	add_rows(j, rg, types, f);
	add_sleeps(j, rg, f);
	json_close(j, '}');
}

/* How often calls came; null when no time has passed. */
static void add_rate(struct json *j, const struct report_group *rg, uint64_t cnt)
{
	double per_s;

	if (report_rate(rg, cnt, &per_s)) {
		json_key(j, figures[FIGURE_CALLS_RATE].key);
		json_add_real(j, UNIT_RATE, per_s);
	} else {
		json_set_null(j, figures[FIGURE_CALLS_RATE].key);
	}
}

/* Of calls, by how their stacks ended; null where none are followed. */
static void add_ends(struct json *j, const struct report_group *rg)
{
	uint64_t calls[FSN_WALK_ENDS];

	if (!stacks_ends(rg, calls)) {
		json_set_null(j, "stacks");
		return;
	}
	json_set_open(j, "stacks", '{');
	for (int i = FSN_WALK_OUTERMOST; i < FSN_WALK_ENDS; i++)
		json_set_u64(j, stack_end_name(i), calls[i]);
	json_close(j, '}');
}

void report_health(const struct report_group *rg, struct health ret[HEALTH_CNT])
{
	const struct stats *s = rg->s;
	_cleanup_asked_ struct asked asked;
	bool known = !asked_read(s->group, &asked, NULL);
	struct fsn_counts n = {};
	uint64_t shed = 0;

	for (size_t i = 0; i < s->func_cnt; i++) {
		counts_add(&n, &s->funcs[i].n);
		if (stats_is_shed(s->group, s->funcs[i].fn, &s->funcs[i].n))
			shed += s->funcs[i].n.sampled_out;
	}
	memcpy(ret,
		(const struct health[HEALTH_CNT]) {
			{ "no_slot", true, n.no_slot },
			{ "crowded", true, s->crowded },
			{ "other_stack", true, s->other_stack },
			{ "too_deep", true, s->too_deep },
			{ "held_calls", true, s->paused_calls },
			{ "held_times", true, s->pauses },
			{ "sampled_out", true, n.sampled_out },
			{ "shed_calls", true, shed },
			{ "left_by_jump", true, n.jumped },
			{ "inner", true, n.inner },
			{ "unmatched_returns", true, n.unmatched },
			{ "lost_codes", true, s->lost_codes },
			{ "lost_processes", true, s->lost_processes },
			{ "lost_slow", true, s->lost_slow },
			{ "lost_texts", true, s->lost_texts },
			{ "lost_conditions", true, s->lost_conditions },
			{ "lost_stacks", true, s->lost_stacks },
			{ "lost_python", true, s->lost_python },
			{ "bulk_frees", true, s->bulk_frees },
			{ "inner_launches", true, report_inner_launches(rg) },
			{ "missed", s->has_missed, s->missed },
			{ "cpus_off", true, s->cpus_off },
			{ "lost_children", known, known ? asked.lost_children : 0 },
		},
		HEALTH_CNT * sizeof(*ret));
}

/* .lost_children and .over are null for who may not know of which processes calls are counted. */
static void add_health(struct json *j, const struct report_group *rg)
{
	_cleanup_asked_ struct asked asked;
	struct health health[HEALTH_CNT];

	report_health(rg, health);
	json_set_open(j, "health", '{');
	for (size_t i = 0; i < HEALTH_CNT; i++)
		json_set_u64_if(j, health[i].word, health[i].known, health[i].n);
	json_set_u64(j, "held_ns", rg->s->paused_ns);
	add_ends(j, rg);
	json_close(j, '}');
	if (!asked_read(rg->s->group, &asked, NULL))
		json_set_bool(j, "over", asked_is_over(&asked));
	else
		json_set_null(j, "over");
}

/* What the library says in each process that is recorded, or can't be. */
static void add_gpus(struct json *j, const struct stats *s)
{
	static const char *const states[] = { [FSN_GPU_RUNS] = "recorded",
		[FSN_GPU_NO_LIB] = "no library", [FSN_GPU_REFUSED] = "refused",
		[FSN_GPU_TAKEN] = "taken" };

	json_set_open(j, "gpu_processes", '[');
	for (size_t i = 0; i < s->gpu_cnt; i++) {
		const struct fsn_gpu *said = &s->gpus[i].said;

		json_open(j, '{');
		json_set_i64(j, "pid", s->gpus[i].pid);
		json_set_str(j, "state",
			said->state < ARRAY_SIZE(states) ? states[said->state] : NULL);
		json_set_i64(j, "code", said->code);
		json_set_str(j, "library", said->who);
		json_set_u64(j, "idle_s", said->idle_s);
		json_set_u64(j, "dropped", said->dropped);
		if (said->period_s) {
			json_set_u64(j, "window_s", said->window_s);
			json_set_u64(j, "period_s", said->period_s);
		} else {
			json_set_null(j, "window_s");
			json_set_null(j, "period_s");
		}
		json_close(j, '}');
	}
	json_close(j, ']');
}

/* Each as a line of `stream` has it. */
static void add_slow_calls(struct json *j, const struct report_group *rg)
{
	const struct group *g = rg->s->group;
	_cleanup_types_ struct types *types = NULL;

	if (types_read(g, &types, NULL)) {
		json_set_null(j, "slow_calls");
		return;
	}
	json_set_open(j, "slow_calls", '[');
	for (size_t i = 0; i < rg->slow_cnt; i++) {
		struct shown_call c = report_slow(rg, types, i);

		call_json(j, &c, CALL_WHOLE);
	}
	json_close(j, ']');
}

int json_write_stats(struct json *doc, const struct report_group *rg, FILE *f)
{
	_cleanup_types_ struct types *types = NULL;
	const struct stats *s = rg->s;
	uint64_t cost_ns = 0;
	int code = rg->keys.funcs ? types_read(s->group, &types, NULL) : 0;
	bool priced;

	if (code)
		return code;

	json_open(doc, '{');
	json_set_str(doc, "group", group_info(s->group).name);
	json_set_time(doc, "attached_at", s->attached_ns);
	json_set_time(doc, "since", s->since_ns);
	add_rate(doc, rg, stats_all_calls(s));
	json_set_cost(doc, &rg->cost);
	priced = report_cost(rg, &cost_ns);
	json_set_u64_if(doc, "cost_ns", priced, cost_ns);
	add_health(doc, rg);
	if (group_info(s->group).gpu)
		add_gpus(doc, rg->whole);
	json_set_open(doc, "functions", '[');
	for (size_t i = 0; i < rg->func_cnt; i++) {
		add_function(doc, rg, types, rg->funcs[i]);
		json_flush(doc, f);
	}
	json_close(doc, ']');
	if (rg->slow)
		add_slow_calls(doc, rg);
	if (rg->tree)
		json_add_tree(doc, rg);
	json_close(doc, '}');
	json_flush(doc, f);
	return 0;
}

static void add_value(
	struct json *j, const char *key, const struct saved_func *f, enum figure_id id)
{
	json_set_u64_if(j, key, f && figure_known(&f->figures, id),
		f ? figure_or_0(&f->figures, id) : 0);
}

static void add_saved_key(struct json *j, const struct saved_row *row)
{
	json_set_open(j, "key", '{');
	for (size_t i = 0; i < row->part_cnt; i++) {
		const struct saved_part *part = &row->part[i];

		json_set_open(j, part->key, '{');
		json_set_str(j, "value", part->value);
		json_set_str(j, "name", part->name);
		json_close(j, '}');
	}
	json_close(j, '}');
}

static void add_changed(struct json *j, const struct diff_func *d, bool by_key)
{
	const struct saved_func *f = d->after ? d->after : d->before;
	enum figure_id ids[FIGURE_CNT];
	size_t cnt = figure_list(USE_DIFF, ids);
	double change;

	json_open(j, '{');
	json_set_str(j, "name", f->name);
	json_set_str(j, "library", f->library);
	if (by_key)
		add_saved_key(j, f->rows);
	json_set_str(j, "status", diff_status(d));
	for (size_t i = 0; i < cnt; i++) {
		enum figure_id id = ids[i];

		json_set_open(j, figures[id].key, '{');
		add_value(j, "before", d->before, id);
		add_value(j, "after", d->after, id);
		json_key(j, "change_percent");
		if (diff_change(d, id, &change))
			json_real(j, "%.3f", change);
		else
			json_null(j);
		json_close(j, '}');
	}
	json_close(j, '}');
}

int json_write_diff(struct json *doc, const struct report_group *rg, FILE *f)
{
	json_open(doc, '{');
	json_set_str(doc, "group", group_info(rg->s->group).name);
	json_set_str(doc, "before_since", rg->before ? rg->before->since : NULL);
	json_set_time(doc, "since", rg->s->since_ns);
	json_set_open(doc, "functions", '[');
	for (size_t i = 0; i < rg->diff_cnt; i++)
		add_changed(doc, &rg->diff[i], rg->diff_parts);
	json_close(doc, ']');
	json_close(doc, '}');
	json_flush(doc, f);
	return 0;
}

static int print_json(const struct report *r, FILE *f)
{
	__cleanup(out_done) struct out out = {};
	struct json j = json_begin(r->g, &out);
	int code = 0;

	json_open(&j, '[');
	for (size_t i = 0; !code && i < r->cnt; i++)
		code = r->view->json(&j, &r->group[i], f);
	json_close(&j, ']');
	out_char(&out, '\n');
	if (!code)
		json_flush(&j, f);
	return code;
}

/* --- all of them ---------------------------------------------------------------------------- */

/* The first is the one without --format. */
static const struct stats_format formats[] = {
	{ "table", FORMAT_READERS, print_table },
	{ "json", FORMAT_JSON, print_json },
	{ "csv", 0, csv_print },
	{ "folded", FORMAT_STACKS, print_folded },
	{ "flame", FORMAT_STACKS, print_flame },
	{ "pprof", FORMAT_STACKS | FORMAT_BINARY, print_pprof },
	{ "prometheus", FORMAT_METRICS | FORMAT_CUMULATIVE, metrics_print_prometheus },
	{ "openmetrics", FORMAT_METRICS | FORMAT_CUMULATIVE, metrics_print_openmetrics },
};

const struct stats_format *stats_format_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
		if (!strcmp(formats[i].name, name))
			return &formats[i];
	return NULL;
}

const struct stats_format *stats_format_default(bool json)
{
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
		if (json == !!(formats[i].flags & FORMAT_JSON))
			return &formats[i];
	return NULL;
}

const char *stats_format_words(char buf[WORDS_LEN])
{
	const char *words[ARRAY_SIZE(formats)];

	for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
		words[i] = formats[i].name;
	return words_join(words, ARRAY_SIZE(formats), "|", "|", buf);
}
