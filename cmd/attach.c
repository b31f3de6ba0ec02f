// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop attach: probe functions, pinned as a group.
#include <sys/stat.h>

#include "base/util.h"
#include "cli/cmd.h"
#include "internal.h"
#include "kernel/kernel.h"
#include "pins/bpffs.h"
#include "proc/proc.h"
#include "show/list.h"
#include "show/text.h"
#include "target/kind.h"

/* --- groups that are missing or have changed ------------------------------------------------ */

/*
 * Compares the group that @draft would make with the attached one, by attach_definition(). A
 * group that cannot be read, or has ended, is ATTACHED_OTHER.
 */
enum attached { ATTACHED_NONE, ATTACHED_OTHER, ATTACHED_SAME };

static enum attached find_attached(
	const struct bpffs *fs, const struct draft *draft, uint64_t definition)
{
	_cleanup_group_ struct group *group = NULL;
	uint64_t until_ns = 0;
	int code = group_open(fs, draft->name, false, &group, NULL);

	if (code)
		return code == -ENOENT ? ATTACHED_NONE : ATTACHED_OTHER;
	if (group_info(group).definition != definition || group_until(group, &until_ns, NULL) ||
		(until_ns && until_ns <= clock_ns(CLOCK_REALTIME)))
		return ATTACHED_OTHER;
	return ATTACHED_SAME;
}

/* --- which file has which group ------------------------------------------------------------- */

struct folder_group {
	char *name, *file;
};

struct folder_groups {
	struct folder_group *group;
	size_t cnt;
};

static void groups_clear(struct folder_groups *groups)
{
	while (groups->cnt--) {
		free(groups->group[groups->cnt].name);
		free(groups->group[groups->cnt].file);
	}
	free(groups->group);
}

/* Two groups with one name would replace each other at each start. */
static int attach_take_name(struct attach_options *o, const char *name, struct err *err)
{
	struct folder_groups *groups = o->folder;

	for (size_t i = 0; groups && i < groups->cnt; i++)
		if (!strcmp(groups->group[i].name, name))
			return err_set(err, -EEXIST, "group '%s' is that of %s", name,
				groups->group[i].file);
	if (groups)
		*array_add(groups->group, groups->cnt) =
			(struct folder_group) { xstrdup(name), xstrdup(o->config) };
	return 0;
}

/* --- what it says --------------------------------------------------------------------------- */

static void note_no_split(const struct attach_options *o, const struct draft *draft)
{
	for (size_t i = 0; i < draft->timed_cnt; i++)
		if (target_shown(&draft->targets[i]).exit != FSN_EXIT_GOROUTINE)
			return;
	if (o->attach.split && draft->timed_cnt)
		cmd_note(o->g,
			"--with split is without effect: goroutines have no CPU times, threads have");
}

static bool drafts(const struct draft *draft, const struct target *t)
{
	return ANY_WHERE(draft->target_cnt, i, draft->targets[i].object == t->object &&
		draft->targets[i].addr == t->addr);
}

/* A preset that is a selection misses calls of the functions that were not chosen. */
static void note_selection(const struct attach_options *o, const struct draft *draft)
{
	const struct preset_group *preset = o->draft.preset;
	const char *glob = preset && !o->draft.function_cnt ? preset->selection_of : NULL;
	const struct request request = { .func = glob, .optional = true }, *reqs = &request;
	const char *const *lib;
	struct targets all = {};
	size_t more = 0;

	if (!glob || resolve_functions(NULL, &draft->looked, &reqs, 1, &all, NULL))
		return;
	lib = o->draft.lib_cnt ? o->draft.libs : preset->libs;
	for (size_t i = 0; i < all.cnt; i++)
		more += !drafts(draft, &all.target[i]);
	targets_done(&all);
	if (more && lib)
		cmd_note(o->g,
			"preset '%s' is a selection, %zu more function%s; for all: "
			"funcsnoop run '%s' --lib %s",
			preset->name, more, more == 1 ? " matches" : "s match", glob, *lib);
}

void draft_note_left_out(const struct attach_options *o, const struct draft *draft)
{
	size_t refused = draft->target_cnt - draft->probed_cnt;
	const struct target *first = &draft->targets[draft->probed_cnt];

	if (libfind_crowd(draft->finder))
		cmd_note(o->g,
			"left out: %zu more mapped files of such names, as users map more than %d; "
			"use --pid or a path for them",
			libfind_crowd(draft->finder), LIBFIND_OF_USER);
	if (draft->missing_cnt && o->draft.preset)
		cmd_note(o->g, "not in the library: %zu of preset '%s', such as '%s'",
			draft->missing_cnt, o->draft.preset->name, draft->missing[0]);
	note_selection(o, draft);
	for (size_t i = 0; i < draft->probed_cnt; i++)
		if (draft->targets[i].note)
			cmd_note(o->g, "%s", draft->targets[i].note);
	note_no_split(o, draft);
	if (refused == 1)
		cmd_note(o->g, "left out: '%s': %s", first->name, first->refused);
	else if (refused)
		cmd_note(o->g,
			"left out: %zu functions that can't be probed, '%s': %s, ...",
			refused, first->name, first->refused);
}

/* For struct attach_opts .progress; @arg is the struct globals. */
static void show_progress(
	const char *what, const char *things, size_t done, size_t total, void *arg)
{
	const struct globals *g = arg;

	if (g->quiet || total < 100 || !isatty(STDERR_FILENO))
		return;
	fprintf(stderr, "\r%s %zu of %zu %s%s", what, done, total, things,
		done == total ? "\n" : "");
}

/* True if the mode of the bpffs itself keeps out the users in @access; *@ret_mode is that mode. */
static bool is_blocked(
	const struct bpffs *fs, const struct access *access, mode_t *ret_mode)
{
	struct stat st;

	if (access_is_private(access) || fstatat(fs->fd, "..", &st, 0) ||
		st.st_mode & S_IXOTH)
		return false;
	*ret_mode = st.st_mode & 07777;
	return access_is_for_others(access) || !(st.st_mode & S_IXGRP) ||
		(access->gid != (gid_t)-1 && access->gid != st.st_gid);
}

/* Warns if the users of --mode and --owner cannot reach the group. */
static void note_closed(const struct attach_options *o, const struct bpffs *fs)
{
	int len = strrchr(fs->path, '/') - fs->path;
	mode_t mode;

	if (is_blocked(fs, &o->attach.access, &mode))
		cmd_note(o->g,
			"other users cannot reach the group: '%.*s' has mode %04o; run 'chmod o+x %.*s'",
			len, fs->path, mode, len, fs->path);
}

/* If two groups probe one function, each measures the overhead of the other. */
static void note_shared(
	const struct attach_options *o, const struct draft *draft,
	const struct attach_report *report)
{
	if (report->shared_cnt)
		cmd_note(o->g,
			"%zu of the functions of '%s' %s probed by group '%s', too: times of both "
			"are some 150 to 500 ns too long",
			report->shared_cnt, draft->name, report->shared_cnt == 1 ? "is" : "are",
			report->shared_group);
}

static void note_no_tables(const struct attach_options *o, const struct left_out *files)
{
	if (files->cnt)
		cmd_note(o->g,
			"stacks end at %zu of the mapped files: %s%s; 'funcsnoop stats' counts them",
			files->cnt, files->why, files->cnt > 1 ? ", ..." : "");
}

/* "read (__read, __libc_read)" */
static const char *with_aliases(const struct target *f, char *buf, size_t size)
{
	const char *alias = target_alias(f, 0);
	size_t len = snprintf(buf, size, "%s", f->name);

	if (!alias)
		return f->name;
	for (size_t i = 0; len < size && (alias = target_alias(f, i)); i++)
		len += snprintf(buf + len, size - len, "%s%s", i ? ", " : " (", alias);
	if (len < size)
		snprintf(buf + len, size - len, ")");
	return buf;
}

/* Prints each file that was searched: how it was found, and why it is not probed. */
static void print_libraries(const struct attach_options *o, const struct draft *draft)
{
	static const struct table_column columns[] = { { "LIBRARY", TABLE_LEFT, true },
		{ "FUNCTIONS", TABLE_RIGHT, false }, { "FOUND", TABLE_LEFT, false },
		{ "WHY NOT", TABLE_LEFT, TABLE_WRAP } };
	_cleanup_table_ struct grid *table = table_new(columns, ARRAY_SIZE(columns));
	const struct lib_seen *seen;
	size_t cnt;

	for (size_t i = 0; i < draft->looked.cnt; i++) {
		size_t funcs = draft_object_funcs(draft, draft->looked.object[i]);
		_cleanup_free_ char *path = text_library(draft->looked.object[i]);

		grid_textf(table, "%s", path ? path : "?");
		grid_textf(table, "%zu", funcs);
		grid_textf(table, "%s", draft->looked.object[i]->found_how);
		grid_textf(table, "%s", funcs ? "" : "no function of it can be probed");
	}
	seen = libfind_seen(draft->finder, &cnt);
	for (size_t i = 0; i < cnt; i++) {
		grid_textf(table, "%s", seen[i].path);
		grid_textf(table, "-");
		grid_textf(table, "-");
		grid_textf(table, "%s%s", seen[i].file ? "the same file as " : "",
			seen[i].file ? seen[i].file->path : seen[i].why);
	}
	grid_print(table, o->g, false, stdout);
}

/* Prints the prototypes of the functions to be probed. */
static void print_types(const struct attach_options *o, const struct draft *draft)
{
	_cleanup_table_ struct grid *table = prototypes_table();

	for (size_t i = 0; i < draft->probed_cnt; i++) {
		const struct target *t = &draft->targets[i];

		prototypes_add(table, t->name, t->known, t->known ? t->known->types_why : NULL);
	}
	putchar('\n');
	grid_print(table, o->g, false, stdout);
}

/* The table of --dry-run. */
static void print_draft(const struct attach_options *o, const struct draft *draft)
{
	_cleanup_table_ struct grid *table = functions_table();

	for (size_t i = 0; i < draft->target_cnt; i++) {
		struct group_func shown = target_shown(&draft->targets[i]);
		char name[512];

		shown.name = with_aliases(&draft->targets[i], name, sizeof(name));
		functions_add(table, &shown, draft->targets[i].refused);
	}
	for (size_t i = 0; i < draft->missing_cnt; i++)
		functions_add_missing(table, draft->missing[i]);
	if (!draft->failure.code && libfind_denied(draft->finder))
		cmd_note(o->g, "processes not searched, because their mappings cannot be read: %zu",
			libfind_denied(draft->finder));
	if (o->config)
		printf("%s:\n", draft->name);
	grid_print(table, o->g, false, stdout);
	putchar('\n');
	print_libraries(o, draft);
	if (o->verbose)
		print_types(o, draft);
	if (o->config)
		putchar('\n');
}

/* Functions whose calls have about the same overhead. */
struct price_class {
	uint32_t ns;
	size_t cnt;
};

DEFINE_ORDER(compare_prices, struct price_class, RISING(ns))

/* Adds one function, or those of a class that costs at most a quarter more than another. */
static size_t price_add(struct price_class *classes, size_t cnt, struct price_class more)
{
	if (cnt && more.ns <= classes[cnt - 1].ns + classes[cnt - 1].ns / 4) {
		classes[cnt - 1].cnt += more.cnt;
		return cnt;
	}
	classes[cnt] = more;
	return cnt + 1;
}

/* "163 functions: 120 at about 1.2 us a call, 43 at 11 us" */
static void print_prices(const struct draft *draft, const struct price *price)
{
	struct price_class of[PRICE_SITES * PRICE_ENDS] = {}, told[PRICE_SITES * PRICE_ENDS];
	char took[TEXT_NUM_LEN];
	size_t cnt = 0, priced = 0;

	if (!price->at_ns)
		return;
	for (size_t i = 0; i < draft->probed_cnt; i++) {
		struct group_func f = target_shown(&draft->targets[i]);
		struct price_class *class = &of[f.site * PRICE_ENDS + f.end];

		if (!f.in_file)
			continue;
		priced++;
		class->ns = price->whole_ns[f.site][f.end];
		class->cnt++;
	}
	qsort(of, ARRAY_SIZE(of), sizeof(*of), compare_prices);
	for (size_t i = 0; i < ARRAY_SIZE(of); i++)
		if (of[i].cnt)
			cnt = price_add(told, cnt, of[i]);
	if (!priced)
		return;
	printf("%s: %zu function%s: ", draft->name, priced, priced == 1 ? "" : "s");
	for (size_t i = 0; i < cnt; i++)
		printf("%s%zu at %s%s%s", i ? ", " : "", told[i].cnt, i ? "" : "about ",
			text_duration(told[i].ns, took), i ? "" : " a call");
	putchar('\n');
}

/* Prints how many functions are kept, sampled, only counted and left out. */
static void print_bound(const struct draft *draft, const struct budget *budget)
{
	struct bound bound;
	char text[1024];

	bound_count(draft, &bound);
	if (!budget->share || !budget->tried_ns)
		return;
	bound_text(&bound, budget, text, sizeof(text));
	printf("%s: %s\n", draft->name, text);
}

/* The line or two that say what is attached; @processes map its files now. */
static void print_done(const struct draft *draft, const struct budget *budget,
	const struct attach_report *report, size_t processes)
{
	printf("%s: %zu function%s of ", draft->name, draft->probed_cnt,
		draft->probed_cnt == 1 ? "" : "s");
	for (size_t i = 0; i < draft->objects.cnt && i < 3; i++) {
		_cleanup_free_ char *path = text_library(draft->objects.object[i]);

		printf("%s%s", i ? ", " : "", path ? path : "?");
	}
	if (draft->objects.cnt > 3)
		printf(" and %zu more", draft->objects.cnt - 3);
	if (draft_has_files(draft))
		printf(", mapped by %zu process%s", processes, processes == 1 ? "" : "es");
	putchar('\n');
	for (size_t i = 0; i < TARGET_CNT; i++)
		if (target_kinds[i]->tax && draft_kind_cnt(draft, target_kinds[i]))
			printf("%s: %s\n", draft->name, target_kinds[i]->tax);
	print_prices(draft, &report->price);
	print_bound(draft, budget);
	if (draft->timed_cnt + draft_events(draft) < draft->probed_cnt)
		printf("%s: %zu without times; 'funcsnoop list functions %s' says why\n",
			draft->name,
			draft->probed_cnt - draft->timed_cnt - draft_events(draft), draft->name);
}

/* --- what it does ---------------------------------------------------------------------------- */

/* All that is known; the error is the one that attaching would have. */
static int explain_group(const struct attach_options *o, const struct draft *draft,
	struct json *doc, struct err *err)
{
	if (!draft->failure.code)
		draft_note_left_out(o, draft);
	if (doc)
		json_explain_draft(doc, draft);
	else
		print_draft(o, draft);
	if (draft->failure.code)
		*err = draft->failure;
	return draft->failure.code;
}

/* Reports that the attached group is the same, so it keeps counting. */
static void report_unchanged(struct attach_options *o, const struct draft *draft,
	const struct attach_opts *opts, struct json *doc)
{
	if (doc)
		json_add_draft(doc, draft, &opts->budget);
	else if (!o->g->quiet)
		printf("%s: already attached and up to date\n", draft->name);
}

#define AFTER_NS 300000000ULL

/* Programs that the trial slowed down may call more often now, so watch the overhead briefly. */
static void watch_overhead(struct attach_options *o, struct draft *draft,
	const struct attach_opts *opts, const struct attach_report *report, struct bpffs *fs)
{
	uint64_t end = clock_ns(CLOCK_MONOTONIC) + AFTER_NS;
	struct shed *s;

	if (!opts->budget.cost_ns || shed_new(draft, opts, &report->price, fs, &s))
		return;
	while (s && ns_until(end)) {
		sleep_ns(shed_left_ns(s) + 1);
		shed_step(s);
	}
	if (s)
		shed_tell(s, draft);
	shed_free(s);
}

/*
 * Attaches @draft, or with --dry-run explains it. Adds the result to @doc, or prints it if @doc is
 * NULL. Opens @fs if it is not open.
 */
static int attach_group(struct attach_options *o, struct draft *draft,
	struct bpffs *fs, struct json *doc, struct err *err)
{
	enum attached attached = ATTACHED_NONE;
	struct attach_report report;
	struct attach_opts opts;
	size_t processes = 0;
	int code = 0;

	if (o->dry_run)
		return explain_group(o, draft, doc, err);
	draft_note_left_out(o, draft);
	code = draft_check_hits(o, draft, &processes, err);
	/* A user who cannot attach must not create the directory: root would refuse it. */
	if (!code && fs->fd < 0)
		code = attach_choose_link(&o->attach, err);
	if (!code && fs->fd < 0)
		code = bpffs_open(o->g->bpffs, true, fs, err);
	opts = o->attach;
	if (!code)
		code = attach_definition(draft, &opts, &opts.definition, err);
	if (!code && o->refresh)
		attached = find_attached(fs, draft, opts.definition);
	if (!code && attached == ATTACHED_SAME) {
		report_unchanged(o, draft, &opts, doc);
		return 0;
	}
	if (!code)
		code = budget_try(draft, &o->draft, &opts, fs, err);
	if (!code)
		code = attach_draft(draft, &opts, fs, &report, err);
	if (code)
		return err_wrap(err, "cannot attach group '%s'", draft->name);
	watch_overhead(o, draft, &opts, &report, fs);
	if (o->ender_fd >= 0)
		ender_tell(o->ender_fd, fs, draft->name, report.until_ns);
	if (o->guard_fd >= 0 && bound_can_limit(draft))
		guard_tell(o->guard_fd, draft->name);
	note_closed(o, fs);
	note_shared(o, draft, &report);
	if (attached == ATTACHED_OTHER)
		cmd_note(o->g, "group '%s' was out of date: attached again, its counters start at 0",
			draft->name);
	note_no_tables(o, &report.no_tables);
	if (doc)
		json_add_draft(doc, draft, &opts.budget);
	else if (!o->g->quiet)
		print_done(draft, &opts.budget, &report, processes);
	return 0;
}

static int attach_one(struct attach_options *o, struct bpffs *fs, struct json *doc,
	struct err *err)
{
	_cleanup_draft_ struct draft *draft = NULL;
	struct preset_set *set = NULL;
	int code;

	code = draft_of_words(o, o->name ? o->name : o->words.word[0], &set, &draft, err);
	if (!code)
		code = attach_group(o, draft, fs, doc, err);
	draft_free(TAKE_PTR(draft));
	preset_set_free(set);
	return code;
}

/* By @keys, if they are those of its file. */
static int attach_keyed(struct attach_options *o, struct draft *draft, const struct keys *keys,
	struct bpffs *fs, struct json *doc, struct err *err)
{
	if (o->usual) {
		o->keys = *keys;
		o->attach.keys = keys_wanted(keys) ? &o->keys : NULL;
	}
	return attach_group(o, draft, fs, doc, err);
}

/*
 * Attaches all groups of a file or none. All checks that are possible come before the first
 * attach.
 */
static int attach_all(struct attach_options *o, struct draft **drafts, const struct keys *keys,
	size_t cnt, struct bpffs *fs, struct json *doc, struct err *err)
{
	size_t done = 0;
	int code = 0;

	for (; !code && done < cnt; done += !code)
		code = attach_keyed(o, drafts[done], &keys[done], fs, doc, err);
	for (size_t i = done + 1; code && o->dry_run && i < cnt; i++)
		explain_group(o, drafts[i], doc, &(struct err) { 0 });
	while (code && !o->dry_run && !o->attach.replace && done--)
		if (!bpffs_retire(fs, drafts[done]->name, NULL))
			bpffs_remove(fs, drafts[done]->name, NULL, NULL, NULL);
	return code;
}

/* Attaches the groups of the file o->config, or the named ones among them. */
static int attach_config(struct attach_options *o, struct bpffs *fs, struct json *doc,
	struct err *err)
{
	const struct preset_group *group;
	struct preset_set *set = NULL;
	int code = config_load(o->config, &set, err);
	_cleanup_free_ struct keys *keys = NULL; /* of each */
	struct draft **drafts;
	bool is_loaded = !code;
	size_t cnt = 0, wanted;

	for (size_t i = 0; !code && i < o->words.cnt; i++)
		if (!preset_set_group(set, o->words.word[i]))
			code = err_set(err, -ENOENT, "no group '%s' in %s", o->words.word[i],
				o->config);
	wanted = o->words.cnt ? o->words.cnt : code ? 0 : set->group_cnt;
	for (size_t i = 0; !code && i < set->group_cnt; i++)
		code = attach_take_name(o, set->groups[i].name, err);
	drafts = xcalloc(wanted + 1, sizeof(struct draft *));
	keys = xcalloc(wanted + 1, sizeof(*keys));
	for (; !code && cnt < wanted; cnt += !code) {
		group = o->words.cnt ? preset_set_group(set, o->words.word[cnt])
				    : &set->groups[cnt];
		o->draft.name = o->name ? o->name : group->name;
		code = draft_group(o, group, false, &drafts[cnt], err);
		keys[cnt] = o->keys;
	}
	if (!code)
		code = attach_all(o, drafts, keys, cnt, fs, doc, err);
	/* Errors in the file itself must name it. */
	if (code && is_loaded && o->folder)
		err_wrap(err, "%s", o->config);
	while (cnt)
		draft_free(drafts[--cnt]);
	free(drafts);
	preset_set_free(set);
	return code;
}

/* --- a directory of configurations ---------------------------------------------------------- */

static int is_json(const struct dirent *entry)
{
	size_t len = strlen(entry->d_name);

	return *entry->d_name != '.' && len > 5 && !strcmp(entry->d_name + len - 5, ".json");
}

/* Booting must not block on the writer of a FIFO. */
static int check_file(const char *path, struct err *err)
{
	_cleanup_close_ int fd = proc_open_regular(path, err);

	return fd < 0 ? fd : 0;
}

/* Prints the error, if any. */
static int attach_file(struct attach_options *o, const char *folder, const char *name,
	struct bpffs *fs, struct json *doc)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", folder, name);
	struct err err = {};
	int code;

	o->config = path;
	code = check_file(path, &err);
	if (!code)
		code = attach_config(o, fs, doc, &err);
	o->config = folder;
	if (code)
		cmd_show_error(o->g, &err);
	return code;
}

/*
 * Attaches all *.json files of the directory o->config, sorted by name. Reports an invalid file
 * and continues with the others. Returns 0, or -EIO if a file was invalid.
 */
static int attach_folder(struct attach_options *o, struct bpffs *fs, struct json *doc,
	struct err *err)
{
	struct folder_groups groups = {};
	const char *folder = o->config;
	struct dirent **entries = NULL;
	int cnt, failed = 0;

	if (o->words.cnt || o->name)
		return err_set(err, -ERR_USAGE, "--config with a directory takes no GROUP and no --name");
	cnt = scandir(folder, &entries, is_json, alphasort);
	if (cnt < 0)
		return err_sys(err, -errno, "cannot read '%s'", folder);
	o->folder = &groups;
	for (int i = 0; i < cnt; i++) {
		failed += attach_file(o, folder, entries[i]->d_name, fs, doc) != 0;
		free(entries[i]);
	}
	free(entries);
	o->folder = NULL;
	groups_clear(&groups);
	if (!cnt)
		cmd_note(o->g, "no file of '%s' ends in .json", folder);
	return failed ? err_set(err, -EIO, "%d of %d files of '%s' failed", failed, cnt, folder) : 0;
}

/* --- the command ---------------------------------------------------------------------------- */

static int run_parsed(struct attach_options *o)
{
	_cleanup_json_ struct json *doc = o->g->json ? json_list(o->g, "groups") : NULL;
	_cleanup_bpffs_ struct bpffs fs = BPFFS_NONE;
	struct err err = {};
	struct stat st;
	int code = 0;

	/* Before any target file is open: the processes that map target files are reported. */
	if (o->attach.for_ns && !o->dry_run)
		code = ender_start(o->g->bpffs, &o->ender_fd, &err);
	if (!code && o->attach.budget.share && o->attach.budget.trims && !o->dry_run)
		code = guard_start(o->g->bpffs, &o->guard_fd, &err);
	if (code)
		return cmd_fail(o->g, &err);
	kernel_rules(&o->draft.rules, o->attach.link);
	o->draft.explain = o->dry_run;
	if (!o->config)
		code = attach_one(o, &fs, doc, &err);
	else if (!stat(o->config, &st) && S_ISDIR(st.st_mode))
		code = attach_folder(o, &fs, doc, &err);
	else
		code = attach_config(o, &fs, doc, &err);
	if (code && doc && o->dry_run) {
		cmd_show_error(o->g, &err);
		json_error_list(o->g, err.msg, err.hint, TAKE_PTR(doc));
		return err.code == -ERR_USAGE ? EXIT_USAGE : EXIT_FAILED;
	}
	if (code)
		return cmd_fail(o->g, &err);
	return doc ? json_print(TAKE_PTR(doc)) : EXIT_DONE;
}

static int run(struct globals *g, int argc, char **argv)
{
	_cleanup_options_ struct options o;

	cmd_parse(g, &cmd_attach, argc, argv, &o);
	o.attach.words = o.words;
	o.attach.attach.progress = show_progress;
	o.attach.attach.progress_arg = g;
	return attach_options_finish(&o.attach) ? run_parsed(&o.attach) : EXIT_USAGE;
}

const struct command cmd_attach = { "attach", "GROUP [FUNCTION...]",
	"probe functions, pinned as GROUP", run, ON_ATTACH,
	"GROUP [FUNCTION...]\n--config FILE [GROUP...]",
	"Probe functions; the command ends and the kernel keeps counting.\v"
	"GROUP is a preset ('funcsnoop list presets') or a name of your own, then with\n"
	"FUNCTIONs: names, globs, C++ names, 0xADDR, SOURCE:LINE, LIB:func. DUR: 5ms.\n"
	"Example: funcsnoop attach my 'work_*' --lib /usr/bin/app --slow 5ms" };
