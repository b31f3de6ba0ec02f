// SPDX-License-Identifier: BSD-2-Clause
// Reads the values of options that are more than a number or a text, and checks how they go together.
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text.h"
#include "cli/options.h"
#include "proc/proc.h"
#include "stats/compare.h"
#include "target/kind.h"

/* --- values --------------------------------------------------------------------------------- */

/* "PID", or "PID+" for the children as well. */
int read_pid(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct attach_options *o = at;
	size_t len = strlen(arg);

	if (len && arg[len - 1] == '+') {
		o->attach.children = true;
		arg[len - 1] = '\0';
	}
	return read_numbers(&o->pids, opt, arg, err);
}

/* The length of the first term of @text, which "&&" ends; text in quotes may have one. */
static size_t term_len(const char *text)
{
	size_t len = 0;

	for (bool quoted = false; text[len] && (quoted || strncmp(text + len, "&&", 2)); len++) {
		quoted ^= text[len] == '"';
		len += text[len] == '\\' && text[len + 1];
	}
	return len;
}

/* The part of @opt that begins @term, "comm == nginx"; NULL: it is about an argument. */
static const struct option_row *find_filter(
	const struct option_row *opt, const char *term, const char **ret_rest)
{
	size_t len = strspn(term, "abcdefghijklmnopqrstuvwxyz");

	*ret_rest = term + len + strspn(term + len, " ");
	for (const struct option_row *row = option_table; row->on; row++) {
		const char *part = (row->on & opt->on) ? option_part(row) : NULL;

		if (part && !strncmp(row->name, "if ", 3) && !strncmp(part, term, len) && !part[len])
			return row;
	}
	return NULL;
}

/* "== VALUE,VALUE", with quotes or without. */
static int read_filter(
	struct options *o, const struct option_row *part, char *rest, struct err *err)
{
	char *value = rest + 2 + strspn(rest + (strlen(rest) > 1 ? 2 : 0), " \""), *one;
	size_t len;
	int code = 0;

	if (strncmp(rest, "==", 2))
		return err_set(err, -ERR_USAGE, "--%s is compared with == only: '%s==A,B' are alternatives",
			part->name, option_part(part));
	for (len = strlen(value); len && strchr(" \"", value[len - 1]); len--)
		value[len - 1] = '\0';
	while (!code && (one = strsep(&value, ",")))
		code = *one ? option_read(o, part, one, err)
			    : err_set(err, -ERR_USAGE, "--%s: a value is missing", part->name);
	return code;
}

/* Terms about threads become filters; the others are one condition, for the BPF programs. */
int read_if(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct options *options = at;
	struct attach_options *o = &options->attach;
	_cleanup_free_ char *terms = xcalloc(1, strlen(arg) + 4);
	bool filters = false;
	int code = 0;

	if (opt->values && !strcmp(arg, opt->values)) {
		o->has_condition = true;
		return 0;
	}
	for (size_t len; !code; arg += len + 2) {
		const struct option_row *part;
		const char *rest;
		char *term = arg + strspn(arg, " ");
		bool last;

		len = term_len(arg);
		last = !arg[len];
		arg[len] = '\0';
		if (!*term && (filters || *terms || !last))
			return err_set(err, -ERR_USAGE, "--if: a term is missing next to &&");
		part = find_filter(opt, term, &rest);
		filters |= part != NULL;
		if (part)
			code = read_filter(options, part, (char *)rest, err);
		else
			sprintf(terms + strlen(terms), "%s%s", *terms ? "&&" : "",
				strncmp(term, "arg:", 4) ? *terms ? arg : term : term + 4);
		if (last)
			break;
	}
	if (code || (filters && !*terms))
		return code;
	if (o->has_condition)
		return err_set(err, -ERR_USAGE, "--if more than once: join the terms with &&");
	o->has_condition = true;
	return condition_parse(terms, &o->condition, err);
}

/* How stacks are recorded: python (NULL), slow, 1/N; all, without frames of Python. */
int read_stacks(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct attach_options *o = at;
	const char *how = arg ? arg : "python";
	bool late = !strcmp(how, "slow"), native = !strcmp(how, "all");
	char *of = (char *)how + (strncmp(how, "1/", 2) ? 0 : 2);
	int code = 0;

	o->keys.stack_late = late;
	o->attach.stacks_python = !native;
	o->attach.stacks_of = 0;
	if (!late && !native && strcmp(how, "python") &&
		read_number(&o->attach.stacks_of, opt, of, NULL))
		return err_set(err, -ERR_USAGE,
			"--by is stack, stack:slow or stack:1/N, not 'stack:%s'", how);
	if (!keys_at(&o->keys, FSN_BY_STACK))
		code = keys_add_stack(&o->keys, err);
	o->attach.stack_cnt = STACKS_USUAL;
	o->attach.keys = &o->keys;
	/* At the entry a walk begins where the stack pointer is. */
	o->draft.rules.keep_args |= !o->keys.stack_late;
	return code;
}

/* The stack is written "stack" or "stack:HOW": false if @item is not. */
static bool is_stack(char *item, char **ret_how)
{
	*ret_how = !strncmp(item, "stack:", 6) ? item + 6 : NULL;
	return *ret_how || !strcmp(item, "stack");
}

/* Records what @item needs, one of --by: a key, "stack", "none", or the word of a view. */
static int record_by(struct attach_options *o, const struct option_row *opt, char *item,
	struct err *err)
{
	const struct view *view = view_find(item);
	char *how;
	int code;

	if (!strcmp(item, "none")) {
		o->no_keys = true;
		return 0;
	}
	if (is_stack(item, &how))
		return read_stacks(o, option_find(opt->on, "by stack"), how, err);
	if (!view || !(view->flags & VIEW_BY) || view->flags & VIEW_CGROUPS) {
		o->draft.rules.keep_args = true;
		code = keys_add(&o->keys, item, err);
		attach_options_use_keys(o);
		return code;
	}
	o->attach.split |= (view->flags & VIEW_SLEEPS) != 0;
	return view->flags & (VIEW_STACKS | VIEW_SLEEPS) && !o->attach.stack_cnt
		? read_stacks(o, option_find(opt->on, "by stack"), NULL, err)
		: 0;
}

int read_attach_by(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	char *item;
	int code = 0;

	while (!code && (item = strsep(&arg, ",")))
		code = record_by(at, opt, item, err);
	return code;
}

/*
 * run: records stacks, and shows the keys or the view of @arg; stacks are the last of keys.
 * attach_options_show() records the keys that are shown.
 */
int read_run_by(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	_cleanup_free_ char *shown = xcalloc(1, strlen(arg) + 1);
	struct options *o = at;
	const struct view *view;
	size_t shown_cnt = 0;
	char *item, *how;
	bool stack = false, alone = !strcmp(arg, "waker_stack"); /* shown as stacks are */
	int code = 0;

	while (!code && (item = strsep(&arg, ","))) {
		if (alone || is_stack(item, &how) || !strcmp(item, "none")) {
			stack |= strcmp(item, "none") != 0;
			code = record_by(&o->attach, opt, item, err);
		} else {
			sprintf(shown + strlen(shown), "%s%s", shown_cnt++ ? "," : "", item);
		}
	}
	view = view_find(shown);
	if (stack && view && view->flags & VIEW_PROCESSES) {
		err_set(err, -ERR_USAGE, "--by '%s' cannot be combined with stack", shown);
		return err_hint(err, "use --by comm,stack, or --by stack with --pid");
	}
	if (stack && !(view && view->flags & VIEW_BY))
		sprintf(shown + strlen(shown), "%sstack", shown_cnt++ ? "," : "");
	return !code && shown_cnt ? read_by(&o->stats, opt, shown, err) : code;
}

/* Parses --key and --sum. */
int read_key(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct attach_options *o = at;
	int code = strcmp(opt->name, "key") ? keys_add_sum(&o->keys, arg, err)
					    : keys_add(&o->keys, arg, err);

	o->draft.rules.keep_args = true;
	attach_options_use_keys(o);
	return code;
}

/* "1/N" or N: of calls, or of a GPU's seconds; "99hz": samples of a CPU. */
int read_sample(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct attach_options *o = at;
	size_t len = strlen(arg);
	bool rate = len > 2 && !strcasecmp(arg + len - 2, "hz");
	struct option_row as = { opt->name, .min = 1, .max = rate ? RATE_MAX : 1U << 31 };

	if (rate) {
		arg[len - 2] = '\0';
		return read_number(&o->attach.rate, &as, arg, err);
	}
	if (target_gpu_duty(arg, &o->sample_duty, NULL))
		o->sample_duty = 0;
	return read_number(&o->attach.sample, &as, arg + (strncmp(arg, "1/", 2) ? 0 : 2), err);
}

int read_duty(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct attach_options *o = at;

	return target_gpu_duty(arg, &o->draft.duty, err) ? err_wrap(err, "--duty") : 0;
}

int read_overhead(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct attach_options *o = at;

	o->has_overhead = true;
	o->attach.budget.share = 0;
	return strcmp(arg, "none") ? read_share(&o->attach.budget.share, opt, arg, err)
				   : 0;
}

int read_link(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	static const enum link_mode links[] = { LINK_AUTO, LINK_SESSION, LINK_MULTI,
		LINK_PERF };
	struct attach_options *o = at;
	unsigned int choice = 0;
	int code = read_choice(&choice, opt, arg, err);

	o->attach.link = links[choice];
	return code;
}

/*
 * Parses the octal mode @text. Only the read permissions of others matter, because the owner can
 * always read and write. Returns 0, -EINVAL for bits that are not permissions, or -EPERM if others
 * could write.
 */
static int parse_mode(const char *text, mode_t *ret_mode, struct err *err)
{
	unsigned long mode;
	char *end;

	errno = 0;
	mode = strtoul(text, &end, 8);
	if (errno || end == text || *end || text[0] < '0' || text[0] > '7' || mode > 0777)
		return err_set(err, -EINVAL, "'%s' is not a mode such as 0640", text);
	if (mode & (S_IWGRP | S_IWOTH | S_IXUSR | S_IXGRP | S_IXOTH))
		return err_set(
			err, -EPERM, "mode '%s' gives more than the right to read", text);
	*ret_mode = (mode & (S_IRGRP | S_IROTH)) | S_IRUSR | S_IWUSR;
	return 0;
}

static bool parse_id(const char *text, unsigned int *ret_id)
{
	unsigned long id;
	char *end;

	errno = 0;
	id = strtoul(text, &end, 10);
	if (errno || *end || text[0] < '0' || text[0] > '9' || id >= UINT_MAX)
		return false;
	*ret_id = id;
	return true;
}

int parse_owner(const char *text, uid_t *ret_uid, gid_t *ret_gid, struct err *err)
{
	_cleanup_free_ char *user = xstrdup(text);
	char *group = strchr(user, ':');
	uid_t uid = (uid_t)-1;
	gid_t gid = (gid_t)-1;
	struct passwd *pw;
	struct group *gr;

	if (group)
		*group++ = '\0';
	if (!*user && (!group || !*group))
		return err_set(err, -EINVAL, "'%s' is not USER:GROUP", text);
	if (*user && !parse_id(user, &uid)) {
		pw = getpwnam(user);
		if (!pw)
			return err_set(err, -ENOENT, "there is no user '%s'", user);
		uid = pw->pw_uid;
	}
	if (group && *group && !parse_id(group, &gid)) {
		gr = getgrnam(group);
		if (!gr)
			return err_set(err, -ENOENT, "there is no group '%s'", group);
		gid = gr->gr_gid;
	}
	*ret_uid = uid;
	*ret_gid = gid;
	return 0;
}

int read_owner(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct access *access = &((struct attach_options *)at)->attach.access;

	return parse_owner(arg, &access->uid, &access->gid, err)
		? err_wrap(err, "--share")
		: 0;
}

/* "0644", or "USER:GROUP". */
int read_access(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct attach_options *o = at;

	if (strchr(arg, ':'))
		return read_owner(at, opt, arg, err);
	o->has_mode = true;
	return parse_mode(arg, &o->attach.access.mode, err)
		? err_wrap(err, "--share")
		: 0;
}

/* --- checks --------------------------------------------------------------------------------- */

void attach_options_use_keys(struct attach_options *o)
{
	o->attach.keys = &o->keys;
	if (keys_at(&o->keys, FSN_BY_WAKER_STACK) && !o->attach.stack_cnt) {
		o->attach.stack_cnt = STACKS_USUAL;
		o->attach.stacks_python = true;
	}
	if (!o->keys.rows)
		o->keys.rows = KEYS_USUAL;
}

bool attach_options_show(
	struct attach_options *o, const char *const *keys, size_t key_cnt, bool stacks)
{
	struct err err = {};

	stacks &= !o->attach.stack_cnt;
	if ((stacks || key_cnt) && o->no_keys) {
		cmd_usage(o->g, "--by none cannot be combined with another --by");
		return false;
	}
	o->shown = keys;
	o->shown_cnt = key_cnt;
	o->draft.rules.keep_args |= stacks || key_cnt;
	if (!stacks)
		return true;
	o->attach.stacks_python = true;
	if (keys_add_stack(&o->keys, &err)) {
		cmd_usage(o->g, "--by stack: %s", err.msg);
		return false;
	}
	o->attach.stack_cnt = STACKS_USUAL;
	attach_options_use_keys(o);
	return true;
}

/* Live bytes mean little without the code that allocated them, so the default key is 'caller'. */
static const char *memory_choose(struct attach_options *o)
{
	struct err err = {};

	if (!o->memory)
		return NULL;
	if (o->attach.sample > 1 || (o->has_overhead && o->attach.budget.share))
		return "--with memory follows every call: not with --sample or --overhead";
	if (!o->attach.blocks)
		o->attach.blocks = BLOCKS_USUAL;
	o->caller_usual = !o->keys.key_cnt && !o->no_keys;
	if (o->caller_usual && keys_add(&o->keys, "caller", &err))
		return "--with memory: no key is left for the caller";
	if (o->keys.key_cnt)
		o->attach.keys = &o->keys;
	return NULL;
}

/* Returns why the options of @o contradict each other, or NULL. */
static const char *contradiction(const struct attach_options *o)
{
	const struct access *access = &o->attach.access;

	if (!o->config && !o->words.cnt)
		return option_given("by") ? "no group given: --by needs one, such as 'run off-cpu --by comm,waker'"
				       : "no group given";
	if (o->config && o->name && o->words.cnt != 1)
		return "--name with --config needs exactly one group";
	if (o->keys.stack_late && o->draft.rules.count_only)
		return "--by stack:slow needs the returns of calls: not with --count";
	if (o->no_keys && keys_wanted(&o->keys))
		return "--by none cannot be combined with another --by, or --sum";
	if (o->tids.cnt && o->attach.children)
		return "threads have no children: --pid PID+ cannot be combined with tid";
	if (access->all && access_is_private(access))
		return "--share all needs a mode or a group: --share 0644,all";
	return NULL;
}

bool attach_options_finish(struct attach_options *o)
{
	struct access *access = &o->attach.access;
	const char *wrong;

	o->draft.libs = o->libs.of;
	o->draft.lib_cnt = o->libs.cnt;
	o->draft.pids = o->pids.of;
	o->draft.pid_cnt = o->pids.cnt;
	o->draft.slow = o->slow.of;
	o->draft.slow_cnt = o->slow.cnt;
	o->attach.filter = (struct filter) { .pids = o->pids.of,
		.pid_cnt = o->pids.cnt,
		.comms = o->comms.of,
		.comm_cnt = o->comms.cnt,
		.cpus = o->cpus.of,
		.cpu_cnt = o->cpus.cnt,
		.cgroups = o->cgroups.of,
		.cgroup_cnt = o->cgroups.cnt,
		.uids = o->uids.of,
		.uid_cnt = o->uids.cnt,
		.tids = o->tids.of,
		.tid_cnt = o->tids.cnt };
	o->attach.condition = o->has_condition ? &o->condition : NULL;
	o->draft.rules.keep_args |= o->has_condition || o->memory;
	/* Calls nested in an unsampled call would be attributed to its caller. */
	if (o->attach.sample > 1)
		o->attach.nesting = false;
	if (o->draft.rules.count_only)
		o->draft.rules.exit = PLAN_MODE_NONE;
	/* Naming a GROUP in --share lets it read. */
	if (!o->has_mode && access->gid != (gid_t)-1)
		access->mode = 0640;
	wrong = memory_choose(o);
	if (!o->has_overhead)
		o->attach.budget.share = BUDGET_USUAL;
	o->attach.budget.trims = !o->memory;
	if (o->attach.keys)
		attach_options_use_keys(o);
	if (!wrong)
		wrong = contradiction(o);
	if (wrong)
		cmd_usage(o->g, "%s", wrong);
	return !wrong;
}

void attach_options_done(struct attach_options *o)
{
	struct list *const lists[] = { &o->libs, &o->pids, &o->tids, &o->comms,
		&o->cgroups, &o->cpus, &o->uids, &o->slow, &o->allocators };

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		free(lists[i]->of);
	free(o->allocating_lib);
	close_fd(o->ender_fd);
	close_fd(o->guard_fd);
	procs_free(o->draft.procs);
}

/* --- views and formats: stats, stream and run -------------------------------------------------- */

#define TEXT_OF_(n) #n
#define TEXT_OF(n)  TEXT_OF_(n)

static bool is_hist_by(const struct view *hist, const struct view *by)
{
	return hist == view_find("hist") && by != view_find("function") &&
		(by->flags & VIEW_BY || by == view_find("key"));
}

/* Sets the view. --by stack and --diff, in any order, are combined into one view. */
static int set_view(struct stats_options *o, const char *name, struct err *err)
{
	const struct view *view = view_find(name), *stack = view_find("stack"),
			  *diff = view_find("diff");

	if (o->view_set &&
		((o->view == stack && view == diff) ||
			(o->view == diff && view == stack)))
		view = view_find("stack-diff");
	else if (o->view_set && (is_hist_by(o->view, view) || is_hist_by(view, o->view)))
		return err_set(err, -ERR_USAGE, "--show hist has one histogram per function, not per row of "
			"--by: 'run ... --if KEY==VALUE --show hist' has that of one value");
	else if (o->view_set && o->view != view)
		return err_set(err, -ERR_USAGE,
			"--by, --show and --diff exclude each other: one view at a time");
	o->view = view;
	o->view_set = true;
	return 0;
}

int read_view(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct stats_options *o = at;

	o->slow |= !strcmp(option_part(opt), "slow");
	o->tree |= !strcmp(option_part(opt), "tree");
	return set_view(o, option_part(opt), err);
}

/*
 * Reads a view, or keys, which are checked when the groups are open. A repeated --by adds keys, and
 * 'stack' is one next to others: each of .choice.by is a part of .by.
 */
int read_by(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct stats_options *o = at;
	const struct view *view = view_find(arg), *stack = view_find("stack");
	char *one, *rest, words[WORDS_LEN];
	int code = 0;

	if (view && view->flags & VIEW_BY && !(view == stack && o->by_text))
		return set_view(o, arg, err);
	if (o->view_set && o->view == stack) {
		o->by_text = xstrdup(stack->name);
		o->view_set = false;
	}
	if (!o->diff_path)
		code = set_view(o, "key", err);
	if (code)
		return code;
	rest = o->by_text ? xasprintf("%s,%s", o->by_text, arg) : xstrdup(arg);
	free(o->by_text);
	o->choice.by_text = o->by_text = rest;
	o->choice.by_cnt = 0;
	free(o->by);
	rest = o->by = xstrdup(o->by_text);
	while ((one = strsep(&rest, ","))) {
		if (!strncmp(one, "arg:", 4))
			one += 4;
		if (!*one || o->choice.by_cnt == FSN_KEYS)
			return err_set(err, -ERR_USAGE,
				"--by is %s or up to %d keys, not '%s'",
				view_by_words(words), FSN_KEYS, o->by_text);
		o->choice.by[o->choice.by_cnt++] = one;
	}
	return 0;
}

int read_metrics_by(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct stats_options *o = at;
	int code = read_by(o, opt, arg, err);

	if (!code && !(o->view->flags & VIEW_METRICS))
		return err_set(err, -ERR_USAGE,
			"--by is process, cgroup or keys, not '%s'", arg);
	return code;
}

int read_diff(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct stats_options *o = at;

	o->view_set &= !o->choice.by_cnt; /* it is of keys then */
	o->diff_path = arg;
	return set_view(o, "diff", err);
}

/* --- order, conditions, formats ------------------------------------------------------------- */

int read_sort(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct stats_options *o = at;
	unsigned int choice;

	o->choice.sorted = true;
	return stats_sort_parse(arg, &o->choice.sort)
		? 0
		: read_choice(&choice, opt, arg, err);
}

/* Rows, or a share of a tree of stacks. */
int read_top(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct stats_options *o = at;

	return strchr(arg, '%') ? read_share(&o->choice.min_share, opt, arg, err)
				: read_from_one(&o->choice.top, opt, arg, err);
}

/* Rows, or the size of the smallest one. */
int read_list_top(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct list_options *o = at;

	return *arg && !arg[strspn(arg, "0123456789")]
		? read_from_one(&o->top, opt, arg, err)
		: read_size(&o->min_bytes, opt, arg, err);
}

/* "5ms": at least this duration; "1/10": one call in 10. */
int read_only(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct stream_options *o = at;

	if (!strncmp(arg, "1/", 2))
		return read_number(&o->filter.sample, opt, arg + 2, err);
	if (!duration_parse(arg, &o->filter.min_ns, NULL))
		return 0;
	return err_set(err, -ERR_USAGE,
		"--only is slow, failed, a duration such as 5ms, or 1/N, not '%s'", arg);
}

/* Conditions with "||" between them, like several options. */
int read_check(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct stats_options *o = at;
	char known[ERR_HINT_LEN], *next;
	int code = 0;

	for (; !code && arg; arg = next) {
		size_t len;

		next = strstr(arg, "||");
		len = next ? (size_t)(next - arg) : strlen(arg);
		while (next && len && arg[len - 1] == ' ')
			len--;
		arg[len] = '\0';
		if (next)
			next += 2 + strspn(next + 2, " ");
		code = check_parse(arg, array_add(o->checks, o->check_cnt), err);
	}
	if (!code)
		return 0;
	snprintf(known, sizeof(known), "%s", err->hint);
	return *known ? err_hint(err, "known are %s", known) : err->code;
}

/* Adds a finding to the mask at @at; the first value means all. */
int read_finding(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	unsigned int choice, *mask = at;
	int code = read_choice(&choice, opt, arg, err);

	if (!code)
		*mask |= choice ? 1U << (choice - 1) : (1U << COMPARE_CNT) - 1;
	return code;
}

int read_buckets(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct stats_options *o = at;

	o->choice.bucket_cnt = 0;
	return strcmp(arg, "none") ? read_number(&o->choice.bucket_cnt, opt, arg, err)
				   : 0;
}

/* "prometheus:buckets=8,path" */
int read_format(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct options *o = at;
	char *name = strsep(&arg, ":");
	unsigned int choice;
	int code = read_choice(&choice, opt, name, err);

	o->stats.format = stats_format_find(name);
	return code || !arg ? code : read_parts(o, opt, arg, err);
}

int read_stream_format(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct stream_options *o = at;
	unsigned int choice;

	o->format = stream_format_find(arg);
	return read_choice(&choice, opt, arg, err);
}

int read_events(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	enum { CALL, ENTRY, EXIT, ALL };
	struct stream_options *o = at;
	unsigned int which = CALL;
	int code = read_choice(&which, opt, arg, err);

	o->calls = which == CALL || which == ALL;
	o->entries = which == ENTRY || which == ALL;
	o->exits = which == EXIT || which == ALL;
	return code;
}

/* --- checks --------------------------------------------------------------------------------- */

/* Options that make no sense together: why, or NULL. */
static const char *stats_contradiction(struct stats_options *o)
{
	bool loop = o->interval_ns || o->duration_ns;

	if (o->g->json && o->format && !(o->format->flags & FORMAT_JSON))
		return "--json and another --format exclude each other";
	if (o->format && o->format->flags & FORMAT_METRICS &&
		!(o->view->flags & VIEW_METRICS))
		return "metrics are of functions, processes, cgroups and keys: no --by library or stack, no --show or --diff";
	if (option_given("format buckets|format path|library-label") &&
		!(o->format && o->format->flags & FORMAT_METRICS))
		return "buckets and path are details of --format prometheus and openmetrics";
	if (o->choice.min_share && !o->view_set)
		o->view = view_find("stack");
	else if (o->choice.min_share && !(o->view->flags & VIEW_STACKS))
		return "--top SHARE goes with --by stack";
	if (o->format && o->format->flags & FORMAT_STACKS &&
		(o->view_set && !(o->view->flags & VIEW_STACKS)))
		return "--format folded, flame and pprof are of stacks: no --by but stack, no --show";
	if (o->format && o->format->flags & FORMAT_BINARY && o->diff_path)
		return "--format pprof has one reading: no --diff; flame and folded have both";
	if (o->format && o->format->flags & FORMAT_BINARY && !o->output &&
		isatty(STDOUT_FILENO))
		return "--format pprof is nothing for a terminal: --output";
	if (loop && o->format && o->format->flags & FORMAT_CUMULATIVE && !o->output)
		return "metrics with --interval need --output, which is rewritten each time";
	if (o->reset && o->format && o->format->flags & FORMAT_CUMULATIVE)
		return "metrics are counted on from one reading to the next: no --reset";
	for (size_t i = 0; i < o->check_cnt; i++)
		if (o->checks[i].relative && !o->diff_path &&
			!check_is_share(&o->checks[i]))
			return "--fail-if with percent needs --diff, but of on_cpu, queued and blocked";
	return NULL;
}

bool stats_options_finish(struct stats_options *o)
{
	const char *wrong;

	if (o->format && o->format->flags & FORMAT_STACKS &&
		o->view == view_find("diff") && !o->choice.by_cnt)
		o->view = view_find("stack-diff");
	wrong = stats_contradiction(o);
	if (wrong) {
		cmd_usage(o->g, "%s", wrong);
		return false;
	}
	if (!o->format)
		o->format = stats_format_default(o->g->json);
	o->choice.sorted |= (o->view->flags & VIEW_SLEEPS) != 0;
	o->g->json = o->format->flags & FORMAT_JSON;
	return true;
}

static const char *stream_contradiction(const struct stream_options *o)
{
	const struct stream_filter *f = &o->filter;

	if (o->pids.cnt > FSN_STREAM_PIDS)
		return "at most " TEXT_OF(FSN_STREAM_PIDS) " processes can be chosen";
	if (o->g->json && o->format && o->format != &stream_json)
		return "--json and another --format exclude each other";
	if (o->format && o->format->calls_only && (o->entries || o->exits))
		return "a trace is made of calls: no --events with --format chrome or perfetto";
	if (o->format && o->format->piece && !o->output && isatty(STDOUT_FILENO))
		return "--format perfetto is nothing for a terminal: --output";
	if (o->entries && (f->slow || f->failed || f->min_ns))
		return "nothing is known of the call at its entry: no --only slow, failed or DUR";
	if (o->entries && o->calls && f->sample)
		return "--only 1/N would choose other entries than calls: not with --events all";
	if (o->alert && !o->calls)
		return "--alert is about calls: not with --events entry or exit";
	return NULL;
}

bool stream_options_finish(struct stream_options *o)
{
	const char *wrong = stream_contradiction(o);

	if (wrong) {
		cmd_usage(o->g, "%s", wrong);
		return false;
	}
	if (!o->format)
		o->format = o->g->json ? &stream_json : &stream_text;
	/* With --format json, errors are also printed as JSON. */
	o->g->json = o->format == &stream_json;
	o->filter.ends = o->calls || o->exits;
	o->filter.entries = o->entries;
	o->filter.pids = o->pids.of;
	o->filter.pid_cnt = o->pids.cnt;
	o->filter.funcs = o->funcs.of;
	o->filter.func_cnt = o->funcs.cnt;
	return true;
}
