// SPDX-License-Identifier: BSD-2-Clause
// Output of attach and list, as tables and JSON. Keys are only ever added: scripts depend on them
// (funcsnoop-json(5)).
#include <pwd.h>

#include "attach/attach.h"
#include "base/buffer.h"
#include "base/util.h"
#include "group/group.h"
#include "kernel/kernel.h"
#include "show/call.h"
#include "show/list.h"
#include "show/text.h"
#include "target/draft.h"
#include "target/kind.h"
#include "target/types.h"

/* --- the bound on the overhead of a group -------------------------------------------------------- */

/* Puts @one among the @cnt of @most that have the most by @amount, BOUND_NAMES of them. */
static void keep_most(
	const void **most, size_t *cnt, const void *one, uint64_t (*amount)(const void *one))
{
	size_t at = *cnt;

	while (at && amount(most[at - 1]) < amount(one))
		at--;
	if (at == BOUND_NAMES)
		return;
	*cnt += *cnt < BOUND_NAMES;
	memmove(&most[at + 1], &most[at], (*cnt - at - 1) * sizeof(*most));
	most[at] = one;
}

static uint64_t cost_of(const void *one)
{
	const struct target *t = one;

	return t->cost_ns;
}

static void bound_name(struct bound *b, const struct target *t)
{
	keep_most((const void **)b->expensive, &b->named, t, cost_of);
}

void bound_count(const struct draft *draft, struct bound *ret_bound)
{
	struct bound b = {};

	for (size_t i = 0; i < draft->target_cnt; i++) {
		const struct target *t = &draft->targets[i];

		b.cnt[t->limit] += t->limit != LIMIT_NONE || !t->refused;
		if (t->limit != LIMIT_NONE)
			bound_name(&b, t);
	}
	*ret_bound = b;
}

bool bound_limits(const struct bound *b)
{
	return b->cnt[LIMIT_SAMPLED] || b->cnt[LIMIT_COUNTED] || b->cnt[LIMIT_LEFT_OUT];
}

#define NAME_WIDTH 40 /* columns of a name in a line */

/*
 * ": 'f' (9000 calls/s), 'g' (80 calls/s, sampled) ...; '--overhead none' keeps all, 'run cpu'
 * samples those left out" from @len on, if there are names, and such functions.
 */
static void names_text(const struct bound *b, char *buf, size_t len, size_t size)
{
	bool some_out = false;

	for (size_t i = 0; i < b->named && len < size; i++) {
		const struct target *t = b->expensive[i];
		bool out = t->limit == LIMIT_LEFT_OUT;
		char *name = NULL;

		text_shorten(&t->name, 1, NAME_WIDTH, &name);
		len += snprintf(buf + len, size - len, "%s'%s' (%llu calls/s%s%s)", i ? ", " : ": ",
			name ? name : t->name, (unsigned long long)t->calls_per_s, out ? "" : ", ",
			out ? "" : text_limit(t->limit));
		some_out |= out;
		free(name);
	}
	if (b->named && len < size)
		snprintf(buf + len, size - len, "; '--overhead none' keeps all%s",
			some_out ? ", 'run cpu' samples those left out" : "");
}

void bound_text(const struct bound *b, const struct budget *budget, char *buf, size_t size)
{
	size_t kept = b->cnt[LIMIT_NONE] + b->cnt[LIMIT_SAMPLED] + b->cnt[LIMIT_COUNTED], len;

	len = snprintf(buf, size, "overhead at most %g %%: %zu function%s kept", budget->share / 1e4,
		kept, kept == 1 ? "" : "s");
	for (enum limit limit = LIMIT_SAMPLED; limit < LIMIT_CNT && len < size; limit++)
		if (b->cnt[limit])
			len += snprintf(buf + len, size - len, ", %zu %s%s", b->cnt[limit],
				limit == LIMIT_LEFT_OUT ? "" : "of them ", text_limit(limit));
	names_text(b, buf, len, size);
}

void bound_shed_text(
	const struct draft *draft, size_t cnt, const struct budget *budget, char *buf, size_t size)
{
	struct bound b = {};
	size_t len = snprintf(buf, size, "overhead at most %g %%: %zu function%s left out meanwhile",
		budget->share / 1e4, cnt, cnt == 1 ? "" : "s");

	/* A function that was left out before has no probes. */
	for (size_t i = 0; i < draft->probed_cnt; i++)
		if (draft->targets[i].limit == LIMIT_LEFT_OUT)
			bound_name(&b, &draft->targets[i]);
	names_text(&b, buf, len, size);
}

static uint64_t shed_of(const void *one)
{
	const struct stats_func *f = one;

	return f->n.sampled_out;
}

bool bound_shed_calls(const struct stats *s, char *buf, size_t size)
{
	const struct stats_func *most[BOUND_NAMES];
	size_t cnt = 0, len;

	for (size_t i = 0; i < s->func_cnt; i++)
		if (stats_is_shed(s->group, s->funcs[i].fn, &s->funcs[i].n))
			keep_most((const void **)most, &cnt, &s->funcs[i], shed_of);
	len = snprintf(buf, size, "above the overhead of %g %%, calls were counted but not timed: ",
		group_info(s->group).budget / 1e4);
	for (size_t i = 0; i < cnt && len < size; i++)
		len += snprintf(buf + len, size - len, "%s%llu of %llu of '%s'", i ? ", " : "",
			(unsigned long long)most[i]->n.sampled_out,
			(unsigned long long)most[i]->n.calls,
			group_func(s->group, most[i]->fn).name);
	return cnt;
}

/* The same as key "overhead"; null without a bound. */
static void bound_json(struct json *j, const struct bound *b, const struct budget *budget)
{
	if (!budget->share) {
		json_set_null(j, "overhead");
		return;
	}
	json_set_open(j, "overhead", '{');
	json_set_u64(j, "granted_ns_per_s", budget->share * 1000ULL);
	json_set_u64_if(j, "tried_ns", budget->tried_ns, budget->tried_ns);
	json_set_u64_if(j, "cost_ns_per_s", budget->tried_ns, budget->cost_ns);
	json_set_u64(j, "kept",
		b->cnt[LIMIT_NONE] + b->cnt[LIMIT_SAMPLED] + b->cnt[LIMIT_COUNTED]);
	json_set_u64(j, "sampled", b->cnt[LIMIT_SAMPLED]);
	json_set_u64(j, "counted_only", b->cnt[LIMIT_COUNTED]);
	json_set_u64(j, "left_out", b->cnt[LIMIT_LEFT_OUT]);
	json_set_open(j, "expensive", '[');
	for (size_t i = 0; i < b->named; i++) {
		json_open(j, '{');
		json_set_str(j, "name", b->expensive[i]->name);
		json_set_str(j, "limited", text_limit(b->expensive[i]->limit));
		json_set_u64(j, "calls_per_s", b->expensive[i]->calls_per_s);
		json_close(j, '}');
	}
	json_close(j, ']');
	json_close(j, '}');
}

/* --- functions ------------------------------------------------------------------------------ */

/* "args", "declared", "ret", "types_why" of a function. */
static void json_add_types(struct json *j, const struct preset_func *known, const char *why)
{
	json_set_open(j, "args", '[');
	for (size_t i = 0; known && known->has_args && i < known->arg_cnt; i++)
		json_str(j, known->args[i].text);
	json_close(j, ']');
	json_set_bool(j, "declared", known && known->has_args);
	json_set_str(j, "ret", known ? known->ret_text : NULL);
	json_set_str(j, "types_why", why);
}

/* @known: of its arguments and result, or NULL. */
static void add_function(struct json *j, const struct group_func *f,
	const struct preset_func *known, const char *refused)
{
	json_open(j, '{');
	json_set_str(j, "name", f->name);
	json_set_str(j, "symbol", f->symbol);
	json_set_str(j, "demangled", f->demangled);
	json_set_str(j, "kind", f->kind);
	json_set_str(j, "library", f->library);
	json_set_str(j, "build_id", f->build_id && *f->build_id ? f->build_id : NULL);
	json_set_u64_if(j, "offset", f->in_file, f->offset);
	json_set_u64_if(j, "site_offset", f->in_file && !refused, f->site_offset);
	json_set_str(j, "site_why", refused ? NULL : f->site_why);
	json_set_str(j, "instruction", refused || !*f->insn ? NULL : f->insn);
	json_set_str(j, "exit", refused ? NULL : text_exit(f->exit));
	json_set_str(j, "exit_why", refused ? NULL : f->exit_why);
	json_set_str(j, "limited", text_limit(f->limit));
	json_add_types(j, known, f->types_why);
	json_set_str(j, "refused", refused);
	json_close(j, '}');
}

static void begin_group(struct json *j, const char *name)
{
	json_open(j, '{');
	json_set_str(j, "group", name);
	json_set_open(j, "functions", '[');
}

/* Starts the array of aliases, after that of functions. */
static void begin_aliases(struct json *j)
{
	json_set_open(j, "aliases", '[');
}

static void begin_also(struct json *j, const char *name)
{
	json_open(j, '{');
	json_set_str(j, "name", name);
	json_set_open(j, "also", '[');
}

static void end_also(struct json *j)
{
	json_close(j, ']');
	json_close(j, '}');
}

/* Without the end of the group. */
static void add_draft(struct json *j, const struct draft *draft, const struct budget *budget)
{
	struct bound bound;
	const char *alias;

	begin_group(j, draft->name);
	for (size_t i = 0; i < draft->target_cnt; i++) {
		struct group_func shown = target_shown(&draft->targets[i]);

		add_function(j, &shown, draft->targets[i].known, draft->targets[i].refused);
	}
	json_close(j, ']');
	bound_count(draft, &bound);
	bound_json(j, &bound, budget);
	begin_aliases(j);
	for (size_t i = 0; i < draft->target_cnt; i++) {
		if (!target_alias(&draft->targets[i], 0))
			continue;
		begin_also(j, draft->targets[i].name);
		for (size_t k = 0; (alias = target_alias(&draft->targets[i], k)); k++)
			json_str(j, alias);
		end_also(j);
	}
	json_close(j, ']');
}

void json_add_draft(struct json *doc, const struct draft *draft, const struct budget *budget)
{
	add_draft(doc, draft, budget);
	json_close(doc, '}');
}

static void explain_library(struct json *j, const char *path, const char *typed,
	const char *found, uint64_t functions, const char *same_as, const char *refused)
{
	json_open(j, '{');
	json_set_str(j, "path", path);
	json_set_str(j, "typed", typed);
	json_set_str(j, "found", found);
	json_set_u64(j, "functions", functions);
	json_set_str(j, "same_as", same_as);
	json_set_str(j, "refused", refused);
	json_close(j, '}');
}

/* Adds the libraries that were searched, and the files that were skipped. */
static void explain_libraries(struct json *j, const struct draft *draft)
{
	const struct lib_seen *seen;
	size_t cnt;

	for (size_t i = 0; i < draft->looked.cnt; i++)
		explain_library(j, draft->looked.object[i]->path, draft->looked.object[i]->typed,
			draft->looked.object[i]->found_how, draft_object_funcs(draft, draft->looked.object[i]), NULL,
			NULL);
	seen = libfind_seen(draft->finder, &cnt);
	for (size_t i = 0; i < cnt; i++)
		explain_library(j, seen[i].path, NULL, NULL, 0,
			seen[i].file ? seen[i].file->path : NULL, seen[i].why);
}

void json_explain_draft(struct json *doc, const struct draft *draft)
{
	add_draft(doc, draft, &(const struct budget) {});
	json_set_open(doc, "libraries", '[');
	explain_libraries(doc, draft);
	json_close(doc, ']');
	json_set_open(doc, "missing", '[');
	for (size_t i = 0; i < draft->missing_cnt; i++)
		json_str(doc, draft->missing[i]);
	json_close(doc, ']');
	json_close(doc, '}');
}

/* Each name in @names ends with a newline. */
static void add_names(struct json *j, const char *names)
{
	while (*names) {
		size_t len = strcspn(names, "\n");

		json_str_len(j, names, len);
		names += names[len] ? len + 1 : len;
	}
}

void json_add_functions(
	struct json *doc, const struct group *group, const struct types *types)
{
	__cleanup(group_left_done) struct group_left left = {};
	struct group_info info = group_info(group);
	const struct budget budget = { .share = info.budget, .tried_ns = info.tried_ns,
		.cost_ns = info.tried_cost_ns };
	struct bound bound = {};
	struct group_func f;
	const char *why;

	begin_group(doc, info.name);
	for (uint32_t i = 0; i < info.fn_cnt; i++) {
		const struct preset_func known = types_declared(types_of(types, i));

		f = group_func(group, i);
		add_function(doc, &f, &known, NULL);
		bound.cnt[f.limit]++;
	}
	while (group_next_left(group, &left, &f, &why)) {
		add_function(doc, &f, NULL, why);
		bound.cnt[f.limit]++;
	}
	json_close(doc, ']');
	bound_json(doc, &bound, &budget);
	begin_aliases(doc);
	for (uint32_t i = 0; i < info.fn_cnt; i++) {
		f = group_func(group, i);
		if (!f.aliases)
			continue;
		begin_also(doc, f.name);
		add_names(doc, f.aliases);
		end_also(doc);
	}
	json_close(doc, ']');
	json_close(doc, '}');
}

/* --- list ----------------------------------------------------------------------------------- */

static void add_numbers(struct json *j, const char *key, const uint32_t *of, size_t cnt)
{
	json_set_open(j, key, '[');
	for (size_t i = 0; i < cnt; i++)
		json_u64(j, of[i]);
	json_close(j, ']');
}

/* Words with @behind after each. */
static void add_words(struct json *j, const char *key, const char *text, char behind)
{
	const char *end;

	json_set_open(j, key, '[');
	for (; (end = strchr(text, behind)); text = end + 1)
		json_str_len(j, text, (size_t)(end - text));
	json_close(j, ']');
}

static void add_filters(struct json *j, const struct asked *a)
{
	json_set_open(j, "filters", '{');
	add_numbers(j, "pids", a->pids, a->pid_cnt);
	add_numbers(j, "ended", a->pids, a->ended_cnt);
	json_set_bool(j, "children", a->children);
	json_set_u64(j, "lost_children", a->lost_children);
	add_numbers(j, "tids", a->tids, a->tid_cnt);
	add_numbers(j, "uids", a->uids, a->uid_cnt);
	json_set_open(j, "comms", '[');
	for (size_t i = 0; i < a->comm_cnt; i++)
		json_str(j, a->comms[i]);
	json_close(j, ']');
	json_set_open(j, "cpus", '[');
	for (const char *at = a->cpus; *at; at += strspn(at, " ")) {
		json_u64(j, strtoul(at, NULL, 10));
		at += strcspn(at, " ");
	}
	json_close(j, ']');
	add_words(j, "cgroups", a->cgroups, '\n');
	json_set_str(j, "condition", *a->condition ? a->condition : NULL);
	json_close(j, '}');
}

static void add_attached_by(
	struct json *j, const struct group_info *info, const struct asked *a)
{
	const struct passwd *user = getpwuid(info->uid);

	json_set_open(j, "attached_by", '{');
	json_set_u64(j, "uid", info->uid);
	json_set_str(j, "user", user ? user->pw_name : NULL);
	json_set_u64(j, "pid", info->pid);
	if (a) {
		json_set_open(j, "command_line", '[');
		for (const char *at = a->argv; at < a->argv + a->argv_bytes;
			at += strlen(at) + 1)
			json_str(j, at);
		json_close(j, ']');
	} else {
		json_set_null(j, "command_line");
	}
	json_close(j, '}');
}

static void add_key_names(struct json *j, const char *key, const char *const *names, size_t most)
{
	json_set_open(j, key, '[');
	for (size_t i = 0; i < most && names[i]; i++)
		json_str(j, names[i]);
	json_close(j, ']');
}

/* How it was attached, and until when. */
static void add_asked(
	struct json *j, const struct json_list_row *row, const struct group_info *info)
{
	static const char *const keys[] = { "until", "while_run", "waiting", "options",
		"filters", "over", "attached_by" };
	char until[TEXT_NUM_LEN];

	if (row->error) {
		for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
			json_set_null(j, keys[i]);
		return;
	}
	json_set_str(j, "until",
		row->until_ns && !info->kept ? text_time(row->until_ns, until) : NULL);
	json_set_u64_if(j, "while_run", info->kept, (uint64_t)info->pid);
	json_set_bool(j, "waiting", info->waits);
	json_set_open(j, "options", '{');
	json_set_u64(j, "sample", info->sample);
	json_set_bool(j, "processes", info->processes);
	json_set_bool(j, "raw", info->raw);
	json_set_u64_if(j, "granted_ns_per_s", info->budget, info->budget * 1000ULL);
	json_set_u64_if(j, "duty_period_s", info->duty > 1, info->duty);
	add_key_names(j, "keys", info->key, FSN_KEYS);
	add_key_names(j, "sums", info->sum, FSN_SUMS);
	json_close(j, '}');
	if (row->asked) {
		add_filters(j, row->asked);
		json_set_bool(j, "over", asked_is_over(row->asked));
	} else {
		json_set_null(j, "filters");
		json_set_null(j, "over");
	}
	add_attached_by(j, info, row->asked);
}

void json_add_list(struct json *doc, const struct json_list_row *row)
{
	struct group_info info = group_info(row->group);
	char exits[64], attached[TEXT_NUM_LEN], since[TEXT_NUM_LEN];
	bool known = !row->error;

	json_open(doc, '{');
	json_set_str(doc, "name", info.name);
	json_set_open(doc, "libraries", '[');
	for (uint32_t i = 0; known && i < info.lib_cnt; i++)
		json_str(doc, group_lib(row->group, i));
	json_close(doc, ']');
	json_set_u64_if(doc, "functions", known, info.fn_cnt);
	json_set_str(doc, "link", known ? link_mode_name(info.links) : NULL);
	json_set_str(doc, "exits",
		known ? text_exits(info.exits, exits, sizeof(exits)) : NULL);
	json_set_str(
		doc, "attached_at", known ? text_time(info.attached_ns, attached) : NULL);
	json_set_str(doc, "since", known ? text_time(row->since_ns, since) : NULL);
	json_set_u64_if(doc, "calls", known, row->calls);
	json_set_u64_if(doc, "shed_functions", known, row->shed_cnt);
	json_set_cost(doc, &row->cost);
	json_set_u64_if(doc, "memory_bytes", row->memory_bytes, row->memory_bytes);
	json_key(doc, "stale");
	if (known)
		json_bool(doc, row->stale);
	else
		json_null(doc);
	add_asked(doc, row, &info);
	if (row->error)
		json_set_str(doc, "error", row->error);
	json_close(doc, '}');
}

void json_begin_call(
	struct json *doc, const struct group *group, const struct slot_call *call,
	const struct shown_call *shown)
{
	json_open(doc, '{');
	json_set_str(doc, "group", group_info(group).name);
	json_set_str(doc, "function", group_func_name(group, call->fn));
	json_set_u64(doc, "pid", call->pid);
	json_set_u64(doc, "tid", call->tid);
	json_set_str(doc, "comm", call->comm);
	json_set_u64(doc, "age_ns", call->age_ns);
	json_set_bool(doc, "stale", call->stale);
	call_keys_json(doc, shown);
	call_args_json(doc, shown);
}

void json_add_preset(struct json *doc, const struct preset_entry *preset)
{
	json_open(doc, '{');
	json_set_str(doc, "name", preset->name);
	json_set_str(doc, "description", preset->description);
	json_set_str(doc, "origin", preset->origin);
	json_set_u64_if(doc, "functions", !preset->error, preset->func_cnt);
	json_set_str(doc, "error", preset->error);
	json_close(doc, '}');
}

/* --- table of functions: their probes, how returns are traced, and why --------------------- */

struct grid *functions_table(void)
{
	static const struct table_column columns[] = { { "FUNCTION", TABLE_LEFT, TABLE_NAMES },
		{ "LIBRARY", TABLE_LEFT, true }, { "OFFSET", TABLE_RIGHT, false },
		{ "SITE", TABLE_LEFT, false }, { "INSTRUCTION", TABLE_LEFT, true },
		{ "EXIT", TABLE_LEFT, false }, { "WHY", TABLE_LEFT, TABLE_WRAP } };

	return table_new(columns, ARRAY_SIZE(columns));
}

/* "read (__read, __libc_read)" */
static const char *with_aliases(const struct group_func *f, char *buf, size_t size)
{
	size_t len = snprintf(buf, size, "%s (", f->name);

	for (const char *at = f->aliases; *at && len < size;) {
		size_t n = strcspn(at, "\n");

		len += snprintf(buf + len, size - len, "%s%.*s",
			at == f->aliases ? "" : ", ", (int)n, at);
		at += at[n] ? n + 1 : n;
	}
	if (len < size)
		snprintf(buf + len, size - len, ")");
	return buf;
}

void functions_add(struct grid *table, const struct group_func *f, const char *refused)
{
	char names[512];

	grid_textf(table, "%s",
		f->demangled         ? f->demangled
			: f->aliases ? with_aliases(f, names, sizeof(names))
				     : f->name);
	grid_textf(table, "%s", f->library);
	grid_textf(table, f->in_file ? "%#llx" : "-", (unsigned long long)f->offset);
	grid_textf(table, refused || !f->in_file ? "-" : "+%llu",
		(unsigned long long)(f->site_offset - f->offset));
	grid_textf(table, "%s", refused || !*f->insn ? "-" : f->insn);
	grid_textf(table, "%s",
		!refused                          ? text_exit(f->exit)
			: f->limit == LIMIT_LEFT_OUT ? "left out"
						     : "refused");
	grid_textf(table, "%s", refused ? refused : f->exit_why);
}

void functions_add_left(struct grid *table, const struct group *group)
{
	__cleanup(group_left_done) struct group_left left = {};
	struct group_func f;
	const char *why;

	while (group_next_left(group, &left, &f, &why))
		functions_add(table, &f, why);
}

void functions_add_missing(struct grid *table, const char *name)
{
	static const char *const rest[] = { "-", "-", "-", "-", "missing" };
	const struct target_kind *kind = target_kind_of(name);

	grid_textf(table, "%s", name);
	for (size_t i = 0; i < ARRAY_SIZE(rest); i++)
		grid_textf(table, "%s", rest[i]);
	grid_textf(table, "no such %s", kind->in_files ? "symbol" : kind->noun);
}

void out_budget(struct out *out, const struct group *group)
{
	__cleanup(group_left_done) struct group_left left = {};
	struct group_info info = group_info(group);
	size_t cnt[LIMIT_CNT] = {};
	const char *before = ": ", *why;
	struct group_func f;

	if (!info.budget)
		return;
	out_printf(out, "; overhead at most %g %%", info.budget / 1e4);
	for (uint32_t i = 0; i < info.fn_cnt; i++)
		cnt[group_func(group, i).limit]++;
	while (group_next_left(group, &left, &f, &why))
		cnt[f.limit]++;
	for (enum limit limit = LIMIT_SAMPLED; limit < LIMIT_CNT; limit++) {
		if (!cnt[limit])
			continue;
		out_printf(out, "%s%zu %s", before, cnt[limit], text_limit(limit));
		before = ", ";
	}
}

/* --- targets: found as attach finds them, and never attached ------------------------------------- */

struct grid *prototypes_table(void)
{
	static const struct table_column columns[] = { { "PROTOTYPE", TABLE_LEFT, true },
		{ "TYPES FROM", TABLE_LEFT, TABLE_WRAP } };

	return table_new(columns, ARRAY_SIZE(columns));
}

void prototypes_add(struct grid *table, const char *name, const struct preset_func *known,
	const char *why)
{
	_cleanup_free_ char *text = types_prototype(name, known);

	grid_textf(table, "%s", text ? text : "?");
	grid_textf(table, "%s", why ? why : "-");
}

static void target_json(struct json *j, const struct target *t, const char *typed)
{
	json_open(j, '{');
	json_set_str(j, "target", typed);
	json_set_str(j, "name", t->name);
	json_set_str(j, "kind", target_shown(t).kind);
	json_set_str(j, "library", t->object->path);
	json_set_str(j, "function", t->around);
	json_add_types(j, t->known, t->known ? t->known->types_why : NULL);
	json_set_str(j, "refused", t->refused);
	json_close(j, '}');
}

static void show_targets(const struct globals *g, const struct draft *draft, struct json *doc)
{
	static const struct table_column columns[] = { { "TARGET", TABLE_LEFT, true },
		{ "ARGUMENTS AND RESULT", TABLE_LEFT, TABLE_WRAP } };
	_cleanup_table_ struct grid *table = table_new(columns, ARRAY_SIZE(columns));

	for (size_t i = 0; i < draft->target_cnt; i++) {
		const struct target *t = &draft->targets[i];
		_cleanup_free_ char *typed = target_typed(t);
		_cleanup_free_ char *text =
			t->around ? xasprintf("in %s", t->around) : types_prototype("", t->known);
		const char *why = t->known && !t->known->has_args && t->known->types_why
			? t->known->types_why
			: "";

		if (doc) {
			target_json(doc, t, typed);
			continue;
		}
		grid_textf(table, "%s", typed ? typed : "?");
		if (t->refused)
			grid_textf(table, "%s%srefused: %s", text ? text : "?",
				text && *text ? "; " : "", t->refused);
		else
			grid_textf(table, "%s%s%s", text ? text : "?", *why && text && *text ? "; " : "",
				why);
	}
	if (!doc)
		grid_print(table, g, false, stdout);
}

int list_targets(const struct globals *g, char *const *functions, size_t cnt)
{
	_cleanup_json_ struct json *doc = g->json ? json_list(g, "targets") : NULL;
	const struct draft_opts opts = { .name = "targets", .explain = true,
		.functions = (const char *const *)functions, .function_cnt = cnt };
	_cleanup_draft_ struct draft *draft = NULL;
	struct err err = {};

	if (!cnt)
		return cmd_usage(g, "'list targets' needs a FUNCTION: 's:*', 'k:vfs_*', LIB:glob");
	if (draft_new(&opts, &draft, &err))
		return cmd_fail(g, &err);
	if (!draft->target_cnt)
		return cmd_fail(g, &draft->failure);
	show_targets(g, draft, doc);
	if (draft->failure.code)
		cmd_note(g, "%s", draft->failure.msg);
	return doc ? json_print(TAKE_PTR(doc)) : EXIT_DONE;
}
