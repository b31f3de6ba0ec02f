// SPDX-License-Identifier: BSD-2-Clause
// Formats that show a view: the table for readers, CSV, the JSON document; a list of all.
#include "base/util.h"
#include "group/group.h"
#include "group/stacks.h"
#include "proc/proc.h"
#include "show/call.h"
#include "show/stats.h"
#include "show/text.h"

/* --- the table ------------------------------------------------------------------------------ */

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
		fprintf(f, ", %s %s/s", grid_rate(per_s, rate),
			report_is_sampled(rg) ? "samples" : "calls");
	fputc('\n', f);
}

static size_t left_out(const struct group *group)
{
	__cleanup(group_left_done) struct group_left left;
	size_t cnt;

	free(group_left_out(group, &left, &cnt));
	return cnt;
}

/* Explains why nothing was counted: no process maps the library, or none has called it. */
static void explain_empty(const struct stats *s, struct procs *procs, FILE *f)
{
	char when[TEXT_NUM_LEN], attached[TEXT_NUM_LEN];

	text_time(s->attached_ns, attached);
	if (strcmp(attached, text_time(s->since_ns, when)) != 0)
		fprintf(f, "attached since %s\n", attached);
	for (uint32_t i = 0; i < group_info(s->group).lib_cnt; i++) {
		_cleanup_free_ char *path = text_escape(group_lib(s->group, i));
		size_t cnt = 0;
		pid_t pid = 0;
		int code = group_lib_mappers(s->group, i, procs, &cnt, &pid, NULL);

		if (path[0] == '[') /* the kernel */
			continue;
		if (group_lib_stale(s->group, i))
			fprintf(f, "%s is another file now: attach again\n", path);
		else if (!code && !cnt)
			fprintf(f, "no process maps %s now\n", path);
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

/* Prints the probe overhead. An estimate is marked as such. */
static void print_cost(const struct report *r, const struct report_group *rg, FILE *f)
{
	bool estimate = rg->cost.source == COST_CALIBRATED;
	char cost[TEXT_NUM_LEN], share[TEXT_NUM_LEN] = "";

	if (rg->cost.source == COST_UNKNOWN) {
		if (!r->interval_ns && !report_is_frame(r))
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

struct failed {
	const char *function;
	const struct stats_code *code;
};

DEFINE_ORDER(compare_failed, struct failed,
	FALLING(code->count) ?: strcmp(x->function, y->function))

#define NAMED_MAX 5

/* "failed: openat 19 ENOENT, access 2 ENOENT": functions with their error codes, the most first. */
static void print_failed(const struct report_group *rg, FILE *f)
{
	_cleanup_free_ struct failed *failed = NULL;
	size_t cnt = 0, i = 0;

	for (size_t k = 0; k < rg->func_cnt; k++)
		cnt += rg->funcs[k]->code_cnt;
	if (!cnt)
		return;
	failed = xcalloc(cnt, sizeof(*failed));
	for (size_t k = 0; k < rg->func_cnt; k++)
		for (size_t c = 0; c < rg->funcs[k]->code_cnt; c++)
			failed[i++] = (struct failed) {
				group_func_title(rg->s->group, rg->funcs[k]->fn),
				&rg->funcs[k]->codes[c],
			};
	qsort(failed, cnt, sizeof(*failed), compare_failed);
	for (i = 0; i < cnt && i < NAMED_MAX; i++) {
		const struct stats_code *code = failed[i].code;
		_cleanup_free_ char *function = text_escape(failed[i].function);

		fprintf(f, "%s%s %llu ", i ? ", " : "failed: ", function,
			(unsigned long long)code->count);
		if (code->name)
			fprintf(f, "%s", code->name);
		else
			fprintf(f, "code %lld", (long long)code->code);
	}
	fprintf(f, "%s\n", cnt > NAMED_MAX ? ", ...; --show errors prints all" : "");
}

struct failed_row {
	const struct stats_func *f;
	const struct stats_row *row;
	uint64_t errors; /* of all rows with this path */
};

DEFINE_ORDER(compare_paths, struct failed_row,
	RISING(f->fn) ?: strcmp(stats_row_text(x->row, 0), stats_row_text(y->row, 0)))
DEFINE_ORDER(compare_failed_rows, struct failed_row,
	FALLING(errors) ?: strcmp(stats_row_text(x->row, 0), stats_row_text(y->row, 0)))

static void add_errors(void *to, const void *from)
{
	((struct failed_row *)to)->errors += ((const struct failed_row *)from)->errors;
}

/* A key has the first bytes of a longer text. */
static bool may_be_cut(const struct stats_row *row)
{
	return strlen(stats_row_text(row, 0)) == FSN_KEY_TEXT - 1;
}

/* "  openat 19: /etc/nothing": the paths whose calls failed most, if they are the only key. */
static void print_failed_paths(const struct report_group *rg, FILE *f)
{
	_cleanup_free_ struct failed_row *failed = NULL;
	size_t cnt = 0, all = 0;
	bool cut = false;

	if (!rg->s->keys_known || rg->keys.key_cnt != 1 || strcmp(rg->keys.key[0], "path"))
		return;
	for (size_t k = 0; k < rg->func_cnt; k++)
		all += rg->funcs[k]->row_cnt;
	failed = xcalloc(all + 1, sizeof(*failed));
	for (size_t k = 0; k < rg->func_cnt; k++)
		for (size_t i = 0; i < rg->funcs[k]->row_cnt; i++)
			if (rg->funcs[k]->rows[i].n.errors &&
				!stats_row_text(&rg->funcs[k]->rows[i], 0)[FSN_KEY_TEXT - 1])
				failed[cnt++] = (struct failed_row) { rg->funcs[k],
					&rg->funcs[k]->rows[i], rg->funcs[k]->rows[i].n.errors };
	cnt = rows_group(failed, cnt, sizeof(*failed), compare_paths, add_errors);
	qsort(failed, cnt, sizeof(*failed), compare_failed_rows);
	for (size_t i = 0; i < cnt && i < NAMED_MAX; i++) {
		_cleanup_free_ char *path = text_escape(stats_row_text(failed[i].row, 0));

		fprintf(f, "  %s %llu: %s%s\n", group_func_title(rg->s->group, failed[i].f->fn),
			(unsigned long long)failed[i].errors, path,
			may_be_cut(failed[i].row) ? "..." : "");
		cut |= may_be_cut(failed[i].row);
	}
	if (cnt > NAMED_MAX)
		fprintf(f, "  and %zu more paths: --by path\n", cnt - NAMED_MAX);
	if (cut)
		fputs("  --stream --only failed prints whole paths\n", f);
}

/*
 * Reduces @cnts, the calls in flight of each function, to those that are seen in progress: the counters
 * of calls are read after those of returns, so a busy function seems to have more.
 */
static void keep_seen(const struct stats *s, uint64_t *cnts)
{
	_cleanup_free_ struct slot_call *calls = NULL;
	size_t cnt;

	if (slots_read(s->group, &calls, &cnt, NULL))
		return;
	for (size_t k = 0; k < s->func_cnt; k++) {
		uint64_t seen = 0;

		for (size_t i = 0; cnts[k] && i < cnt; i++)
			seen += !calls[i].stale && calls[i].fn == s->funcs[k].fn;
		cnts[k] = seen < cnts[k] ? seen : cnts[k];
	}
}

/* "in flight: 3 calls: poll 2, recvfrom 1"; of a group that stays, the command that lists them. */
static void print_in_flight(const struct stats *s, bool stays, FILE *f)
{
	_cleanup_free_ uint64_t *cnts = xcalloc(s->func_cnt + 1, sizeof(*cnts));
	const char *before = ": ";
	uint64_t in_flight = 0;
	size_t named = 0;

	for (size_t i = 0; i < s->func_cnt; i++)
		cnts[i] = s->funcs[i].unswept ? 0 : s->funcs[i].in_flight;
	keep_seen(s, cnts);
	for (size_t i = 0; i < s->func_cnt; i++)
		in_flight += cnts[i];
	if (!in_flight)
		return;
	fprintf(f, "in flight: %s", counted(in_flight, "call", "calls").text);
	if (stays) {
		fprintf(f, "; 'funcsnoop list inflight %s' shows %s\n", group_info(s->group).name,
			in_flight == 1 ? "it" : "them");
		return;
	}
	for (size_t i = 0; i < s->func_cnt && named <= NAMED_MAX; i++) {
		_cleanup_free_ char *function = NULL;

		if (!cnts[i])
			continue;
		function = text_escape(group_func_title(s->group, s->funcs[i].fn));
		if (named++ < NAMED_MAX)
			fprintf(f, "%s%s %llu", before, function, (unsigned long long)cnts[i]);
		before = ", ";
	}
	fprintf(f, "%s\n", named > NAMED_MAX ? ", ..." : "");
}

/* Prints the lines below the table. */
static void print_foot(const struct report *r, const struct report_group *rg, FILE *f)
{
	uint64_t in_flight = 0, abandoned = 0, unswept = 0;

	for (size_t i = 0; i < rg->s->func_cnt; i++) {
		if (rg->s->funcs[i].unswept)
			unswept += rg->s->funcs[i].in_flight;
		else
			in_flight += rg->s->funcs[i].in_flight;
		abandoned += rg->s->funcs[i].abandoned;
	}
	print_failed(rg, f);
	print_failed_paths(rg, f);
	if (in_flight)
		print_in_flight(rg->s, !r->past, f);
	if (unswept)
		fprintf(f, "in flight: at most %s; only the owner of the group can see which threads still run\n",
			counted(unswept, "call", "calls").text);
	if (abandoned)
		fprintf(f, "abandoned: %s left without a return\n",
			counted(abandoned, "call", "calls").text);
}

/* Reports replaced files: programs that start now map the new file, whose calls are not counted. */
static void print_stale(const struct report *r, const struct report_group *rg, FILE *f)
{
	const struct group *g = rg->s->group;

	for (uint32_t i = 0; i < group_info(g).lib_cnt; i++) {
		_cleanup_free_ char *path = text_escape(group_lib(g, i));

		if (group_lib_stale(g, i))
			report_note(r, f,
				"%s is another file now, is gone or was rewritten: attach again",
				path);
	}
}

/* Reports that all traced processes have exited, and children that could not be traced. */
static void print_ended(const struct report *r, const struct report_group *rg, FILE *f)
{
	_cleanup_asked_ struct asked asked;
	char text[200];

	if (asked_read(rg->s->group, &asked))
		return;
	if (!r->of_command &&
		text_over(group_info(rg->s->group).name, &asked, text, sizeof(text)))
		report_note(r, f, "%s", text);
	if (asked.lost_children)
		report_note(r, f, "calls of %s not counted: too many ran at once",
			counted(asked.lost_children, "child are", "children are").text);
}

/* A nested call of a function is in the time of the outer one, too: TOTAL may exceed all time. */
static void print_recursed(const struct report *r, const struct report_group *rg, FILE *f)
{
	const struct stats_func *most = NULL;

	for (size_t i = 0; i < rg->func_cnt; i++) {
		const struct stats_func *s = rg->funcs[i];

		if (s->timed && s->nested && stats_func_outer(s) < s->n.total_ns &&
			(!most || s->n.recursed_ns > most->n.recursed_ns))
			most = s;
	}
	if (most) {
		const char *whole = group_func_title(rg->s->group, most->fn);
		_cleanup_free_ char *cut = NULL, *name = NULL;

		text_shorten(&whole, 1, 60, &cut);
		name = text_escape(cut ? cut : whole);
		report_note(r, f,
			"TOTAL of '%s' has the time of its nested calls at every level; "
			"outer_ns of --json has the outermost alone", name);
	}
}

#define FEW_SAMPLES 50

/* A share of few samples can be far from that of the time. */
static void print_few(const struct report_group *rg, FILE *f)
{
	uint64_t samples = report_samples(rg);

	if (samples && samples < FEW_SAMPLES)
		fprintf(f, "shares are rough: %s\n", counted(samples, "sample", "samples").text);
}

static const char no_sample[] = "no thread was on a CPU when a sample was taken";

static const char not_kept[] =
	"who called whom is not known: it was attached with --without nesting, or calls are sampled";

static int table_group(
	const struct report *r, const struct report_group *rg, struct procs *procs, FILE *f)
{
	const struct view *view = r->view;
	_cleanup_grid_ struct grid grid = {};
	size_t out = left_out(rg->s->group);

	report_begin_grid(r, &grid);
	grid.is_table = true;
	if (out) /* shares of the other functions would pass for shares of the program */
		grid_hide(&grid, FIGURE_TIME);
	print_head(r, rg, f);
	if (rg->diff && !(r->view->flags & VIEW_STACKS))
		diff_summary(r, rg, f);
	view->fill(&grid, r, rg);
	if (grid.code)
		return grid.code;
	if (r->history)
		history_trends(r->history, group_info(rg->s->group).name, !r->choice->top, &grid);
	if (out && !grid.row_cnt && !rg->func_cnt) {
		fprintf(f, "no function to show: %s left out at the overhead limit\n",
			counted(out, "function was", "functions were").text);
	} else if (!grid.row_cnt) {
		fprintf(f, "%s\n", rg->tree && !rg->s->paths  ? not_kept
				: report_is_sampled(rg) && !rg->func_cnt ? no_sample
									 : view->none);
		if (!rg->func_cnt && !r->interval_ns && !r->of_command)
			explain_empty(rg->whole, procs, f);
	} else if (view->text) {
		view->text(r, rg, f);
	} else {
		grid_print(&grid, r->g, r->plain, f);
	}
	print_few(rg, f);
	if (view->flags & VIEW_REST)
		print_foot(r, rg, f);
	if (rg->func_cnt && view->flags & VIEW_COST) {
		if (!r->past)
			print_cost(r, rg, f);
		print_cost_sum(r, rg, f);
		print_recursed(r, rg, f);
	}
	if (grid.row_cnt)
		print_stale(r, rg, f);
	health_notes(r, rg, f);
	print_ended(r, rg, f);
	return 0;
}

static int print_table(const struct report *r, FILE *f)
{
	_cleanup_procs_ struct procs *procs = procs_new("/proc");
	int code = 0;

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
		code = grid.code;
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
		figures_of_row(&f->procs[i], f, NULL, &values);
		json_add_figures(j, USE_PROCESS_DOCUMENT, &values);
		json_close(j, '}');
	}
	json_close(j, ']');
}

/* Adds the sum of evicted records of exited processes, or null. */
static void add_ended(struct json *j, const struct stats_func *f)
{
	struct figures values;

	if (!f->ended.n.calls && !f->ended.n.returns) {
		json_set_null(j, "ended");
		return;
	}
	json_set_open(j, "ended", '{');
	figures_of_row(&f->ended, f, NULL, &values);
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
		json_add_stack(j, rg->stacks, row->key.word[0], row->pid, f->fn);
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

/* Adds the number of calls by the reason why their stack walk ended; null without stacks. */
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

/* .lost_children and .over are null for users who may not read the filter of the group. */
static void add_health(struct json *j, const struct report_group *rg)
{
	_cleanup_asked_ struct asked asked;
	struct health health[HEALTH_MAX];
	size_t cnt = health_read(rg, health);

	json_set_open(j, "health", '{');
	for (size_t i = 0; i < cnt; i++)
		json_set_u64_if(j, health[i].word, health[i].known, health[i].n);
	json_set_u64(j, "held_ns", rg->s->paused_ns);
	add_ends(j, rg);
	json_close(j, '}');
	if (!asked_read(rg->s->group, &asked))
		json_set_bool(j, "over", asked_is_over(&asked));
	else
		json_set_null(j, "over");
}

/* Adds the state of the injection library in each process. */
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

static void add_time(struct json *j, const struct diff_func *d)
{
	struct diff_time time;

	if (!diff_time(d, &time)) {
		json_set_null(j, "time");
		return;
	}
	json_set_open(j, "time", '{');
	json_set_i64(j, "more_calls_ns", (int64_t)time.more_ns);
	json_set_i64(j, "slower_calls_ns", (int64_t)time.slower_ns);
	json_set_i64(j, "mean_change_ns", (int64_t)(time.mean_ns - time.mean_was_ns));
	json_set_u64(j, "mean_noise_ns", (uint64_t)time.noise_ns);
	json_set_bool(j, "beyond_noise", time.beyond_noise);
	json_set_bool(j, "median_beyond_noise", time.median_beyond);
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
	add_time(j, d);
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

	json_head(&j);
	json_set_open(&j, "groups", '[');
	for (size_t i = 0; !code && i < r->cnt; i++)
		code = r->view->json(&j, &r->group[i], f);
	json_close(&j, ']');
	json_close(&j, '}');
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
	return FIND_WHERE(formats, ARRAY_SIZE(formats), i, !strcmp(formats[i].name, name));
}

const struct stats_format *stats_format_default(bool json)
{
	return FIND_WHERE(formats, ARRAY_SIZE(formats), i,
		json == !!(formats[i].flags & FORMAT_JSON));
}

const char *stats_format_words(char buf[WORDS_LEN])
{
	const char *words[ARRAY_SIZE(formats)];

	for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
		words[i] = formats[i].name;
	return words_join(words, ARRAY_SIZE(formats), "|", "|", buf);
}
