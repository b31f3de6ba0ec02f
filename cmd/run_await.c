// SPDX-License-Identifier: BSD-2-Clause
// Groups that funcsnoop run adds to its own: of libraries that are not mapped yet when it starts,
// because COMMAND loads them later; and CPU samples of functions that are too expensive to be probed.
//
// Another group stops the traced processes after they have mapped code and before they run it,
// so that it is probed before its first call. That group traces page faults of these processes only,
// so other processes are not slowed down. Code that is populated at once (MAP_POPULATE, mlockall)
// causes no page fault, so the processes are also checked every LOOK_NS.
#include "base/util.h"
#include "cli/cmd.h"
#include "find/find.h"
#include "internal.h"
#include "pins/bpffs.h"

#define LOOK_NS   200000000ULL /* between checks of processes that were not stopped */
#define SETTLE_NS 20000000ULL

/* FUNCTIONs of one library, or a preset: they are found together and become one group. */
struct unit {
	struct words words; /* GROUP, FUNCTIONs; .word is owned */
	const char *lib;    /* of several --lib, or NULL */
	bool over;          /* it is attached, or can't be */
	char name[GROUP_NAME_MAX + 1];
	struct preset_set *set;
	struct limited limited;
	struct procs *procs; /* of its draft */
	struct keys keys;    /* keys of its calls; may come from a preset */
	uint32_t stack_cnt;
	struct keeper *keeper;
};

struct await {
	struct options *o;
	struct bpffs *fs;
	char name[GROUP_NAME_MAX + 1]; /* of the group that holds */
	struct keeper *keeper;
	struct draft *draft;
	struct holds *holds;
	int bell_fd;
	struct unit *unit;
	size_t unit_cnt, attached_cnt;
	char **names; /* of the groups that are attached */
	uint64_t looked_ns;
	struct err err; /* what has failed; the first */
};

/* --- awaited units -------------------------------------------------------------------------- */

static void unit_drop_draft(struct unit *u)
{
	shed_free(TAKE_PTR(u->limited.shed));
	draft_free(u->limited.draft);
	preset_set_free(u->set);
	procs_free(u->procs);
	u->limited.draft = NULL;
	u->set = NULL;
	u->procs = NULL;
}

static void unit_add_word(struct unit *u, char *word)
{
	*array_add(u->words.word, u->words.cnt) = word;
}

static struct unit *unit_new(struct await *w, const char *lib)
{
	const struct words *words = &w->o->attach.words;
	struct unit *new;

	new = array_add(w->unit, w->unit_cnt);
	*new = (struct unit) { .lib = lib };
	if (words->cnt)
		unit_add_word(new, words->word[0]);
	return new;
}

/* The unit of functions of the same LIB: as @func has. */
static struct unit *unit_of(struct await *w, const char *func)
{
	size_t len = 0, other_len = 0;
	const char *lib = function_lib(func, &len), *other;

	for (size_t i = 0; i < w->unit_cnt; i++) {
		other = function_lib(w->unit[i].words.word[1], &other_len);
		if (!lib == !other &&
			(!lib || (len == other_len && !memcmp(lib, other, len))))
			return &w->unit[i];
	}
	return unit_new(w, NULL);
}

static bool is_preset(const char *name)
{
	struct preset_set *set = NULL;
	struct err err;
	bool known = !preset_find(name, &set, &err);

	preset_set_free(set);
	return known;
}

static bool names_slow_functions(const struct attach_options *a)
{
	return ANY_WHERE(a->draft.slow_cnt, i, a->draft.slow[i].func);
}

static bool some_has_lib(const struct words *words)
{
	size_t len;

	for (size_t i = 1; i < words->cnt; i++)
		if (function_lib(words->word[i], &len))
			return true;
	return false;
}

static void add_all_words(struct await *w, struct unit *u)
{
	const struct words *words = &w->o->attach.words;

	for (size_t i = 1; i < words->cnt; i++)
		unit_add_word(u, words->word[i]);
}

/* Functions that can be loaded independently are separate units. */
static void make_units(struct await *w)
{
	const struct attach_options *a = &w->o->attach;
	const struct words *words = &a->words;

	if (a->config || names_slow_functions(a) || is_preset(words->word[0]) ||
		(a->draft.lib_cnt && (a->draft.lib_cnt == 1 || some_has_lib(words)))) {
		add_all_words(w, unit_new(w, NULL));
		return;
	}
	for (size_t i = 0; i < a->draft.lib_cnt; i++)
		add_all_words(w, unit_new(w, a->draft.libs[i]));
	for (size_t i = 1; !a->draft.lib_cnt && i < words->cnt; i++)
		unit_add_word(unit_of(w, words->word[i]), words->word[i]);
}

/* --- finding and attaching it --------------------------------------------------------------- */

/* Prints the failure now, because COMMAND continues; the exit status also reports it. */
static void note_failure(struct await *w, struct unit *u, const struct err *err)
{
	u->over = true;
	if (!w->err.code)
		w->err = *err;
	cmd_note(w->o->g, "%s%s%s", err->msg, err->hint[0] ? "; " : "", err->hint);
}

/* Looks for it in process @pid, or with 0 wherever files may be. Whether it is there. */
static bool unit_find(struct await *w, struct unit *u, pid_t pid)
{
	struct attach_options a = w->o->attach;
	struct err err = {};
	bool lacks = false;
	int code;

	a.words = u->words;
	if (a.attach.keys)
		a.attach.keys = &a.keys;
	a.draft.procs = NULL;
	a.draft.pids = &pid;
	a.draft.pid_cnt = pid != 0;
	a.draft.ret_lacks = &lacks;
	if (u->lib) {
		a.draft.libs = &u->lib;
		a.draft.lib_cnt = 1;
		a.draft.explain = true; /* what one lacks the other may have */
	}
	code = run_draft(&a, w->o->name, &u->set, &u->limited.draft, &err);
	u->procs = a.draft.procs;
	u->keys = a.attach.keys ? *a.attach.keys : (struct keys) {};
	u->stack_cnt = a.attach.stack_cnt;
	if (!code && !u->limited.draft->probed_cnt) {
		code = -ENOENT;
		err = u->limited.draft->failure;
	}
	if (!code)
		return true;
	/* The process may have exited, and some processes are not accessible. */
	if (!lacks && !(pid && (code == -ESRCH || code == -EACCES)))
		note_failure(w, u, &err);
	unit_drop_draft(u);
	return false;
}

static int unit_attach(struct await *w, struct unit *u, struct err *err)
{
	struct attach_opts opts = w->o->attach.attach;
	struct attach_report report;
	char suffix[16] = "";
	int code = 0;

	if (w->attached_cnt)
		snprintf(suffix, sizeof(suffix), "_%zu", w->attached_cnt + 1);
	run_group_name(w->o, suffix, u->name);
	snprintf(u->limited.draft->name, sizeof(u->limited.draft->name), "%s", u->name);
	/* The first has the keeper that there is already. */
	if (w->attached_cnt)
		code = keeper_start(w->o->g->bpffs, u->name, &u->keeper, err);
	opts.pids_fd = opts.children ? holds_pids_fd(w->holds) : 0;
	opts.held = true;
	opts.keys = keys_wanted(&u->keys) ? &u->keys : NULL;
	opts.stack_cnt = u->stack_cnt;
	/* Without a trial: a stopped process makes no calls that it could count. */
	if (!code)
		code = attach_draft(u->limited.draft, &opts, w->fs, &report, err);
	if (!code)
		(void)!shed_new(u->limited.draft, &opts, &report.price, w->fs, &u->limited.shed);
	bpffs_unlock(w->fs);
	return code ? err_wrap(err, "cannot attach group '%s'", u->name) : 0;
}

static void unit_try(struct await *w, struct unit *u, pid_t pid)
{
	struct err err = {};

	if (u->over || !unit_find(w, u, pid))
		return;
	draft_note_left_out(&w->o->attach, u->limited.draft);
	if (unit_attach(w, u, &err))
		note_failure(w, u, &err);
	else
		w->names[w->attached_cnt++] = u->name;
	u->over = true;
	if (!u->limited.shed)
		unit_drop_draft(u);
}

static void try_all(struct await *w, pid_t pid)
{
	for (size_t i = 0; i < w->unit_cnt; i++)
		unit_try(w, &w->unit[i], pid);
}

/* True if every awaited unit has been attached or has failed. */
static bool await_is_over(const struct await *w)
{
	return ALL_WHERE(w->unit_cnt, i, w->unit[i].over);
}

/* --- who holds ------------------------------------------------------------------------------ */

/* Makes the draft of group @name, whose only target is CPU samples. */
static int draft_of_samples(
	const struct options *o, const char *name, struct draft **ret_draft, struct err *err)
{
	static const char *const functions[] = { "cpu:samples" };
	const struct draft_opts how = { .name = name, .functions = functions, .function_cnt = 1,
		.rules = o->attach.draft.rules };

	return draft_new(&how, ret_draft, err);
}

static int attach_holder(struct await *w, struct err *err)
{
	const struct attach_opts *all = &w->o->attach.attach;
	struct attach_opts opts = { .link = all->link,
		.filter = { .pids = all->filter.pids, .pid_cnt = all->filter.pid_cnt },
		.children = all->children,
		.unborn = all->unborn,
		.for_ns = all->for_ns,
		.access = all->access,
		.kept = true,
		.holds = true };
	struct attach_report report;
	int code = keeper_start(w->o->g->bpffs, w->name, &w->keeper, err);

	/* The holder counts nothing. */
	if (!code)
		code = draft_of_samples(w->o, w->name, &w->draft, err);
	if (!code)
		code = attach_draft(w->draft, &opts, w->fs, &report, err);
	bpffs_unlock(w->fs);
	if (!code)
		code = holds_open(w->fs, w->name, &w->holds, err);
	return code ? code : holds_listen(w->holds, &w->bell_fd, err);
}

int await_begin(struct options *o, struct bpffs *fs, struct await **ret_await,
	struct err *err)
{
	struct await *w = *ret_await = xcalloc(1, sizeof(*w));
	int code;

	w->o = o;
	w->fs = fs;
	run_group_name(o, "_waits", w->name);
	make_units(w);
	w->names = xcalloc(w->unit_cnt + 1, sizeof(*w->names));
	code = attach_holder(w, err);
	if (code)
		return err_wrap(err, "cannot wait for libraries");
	try_all(w, 0);
	if (w->err.code && err)
		*err = w->err;
	return w->err.code;
}

void await_free(struct await *w)
{
	if (!w)
		return;
	for (size_t i = 0; i < w->unit_cnt; i++) {
		unit_drop_draft(&w->unit[i]);
		keeper_free(w->unit[i].keeper);
		free(w->unit[i].words.word);
	}
	holds_free(w->holds);
	draft_free(w->draft);
	keeper_free(w->keeper);
	free(w->names);
	free(w->unit);
	free(w);
}

/* --- while COMMAND runs --------------------------------------------------------------------- */

int await_fd(const struct await *w)
{
	return w->bell_fd;
}

uint64_t await_left(const struct await *w)
{
	if (!w->holds)
		return UINT64_MAX;
	return holds_are_settled(w->holds) ? LOOK_NS : SETTLE_NS;
}

void await_groups(const struct await *w, struct words *ret_words)
{
	ret_words->word = w->names;
	ret_words->cnt = w->attached_cnt;
}

struct limited *await_limited(struct await *w, size_t i)
{
	return i < w->unit_cnt ? &w->unit[i].limited : NULL;
}

/* For processes that were not stopped. */
static void look_around(struct await *w)
{
	_cleanup_free_ pid_t *pids = NULL;
	size_t cnt;

	if (clock_ns(CLOCK_MONOTONIC) - w->looked_ns < LOOK_NS || await_is_over(w))
		return;
	cnt = holds_followed(w->holds, &pids);
	for (size_t i = 0; i < cnt; i++)
		try_all(w, pids[i]);
	w->looked_ns = clock_ns(CLOCK_MONOTONIC);
}

/* Ends it before the keeper removes its pins: removing pins that are in use would wait. */
static void stop_holding(struct await *w)
{
	if (holds_lost(w->holds))
		cmd_note(w->o->g, "a process that was stopped to be probed was continued by another: "
			"its first calls may be missing");
	holds_end(w->holds);
	holds_free(w->holds);
	w->holds = NULL;
	w->bell_fd = -1;
	keeper_free(w->keeper);
	w->keeper = NULL;
}

bool await_step(struct await *w, bool until_found)
{
	size_t before = w->attached_cnt;
	pid_t pid;

	keeper_mind(w->keeper);
	for (size_t i = 0; i < w->unit_cnt; i++)
		keeper_mind(w->unit[i].keeper);
	if (!w->holds)
		return false;
	while ((pid = holds_next(w->holds))) {
		try_all(w, pid);
		if (until_found && w->attached_cnt > before)
			return true;
		holds_let_go(w->holds, pid);
	}
	holds_settle(w->holds);
	look_around(w);
	if (until_found && w->attached_cnt > before)
		return true;
	if (await_is_over(w))
		stop_holding(w);
	return w->attached_cnt > before;
}

int await_end(struct await *w, struct err *err)
{
	for (size_t i = 0; i < w->unit_cnt; i++) {
		struct unit *u = &w->unit[i];

		if (!u->over)
			cmd_note(w->o->g,
				"nothing of '%s' is counted: no process has loaded %s",
				u->lib                     ? u->lib
					: u->words.cnt > 1 ? u->words.word[1]
							   : u->words.word[0],
				u->lib ? "it" : "its library");
		u->over = true;
	}
	if (w->holds)
		stop_holding(w);
	if (w->err.code)
		*err = w->err;
	return w->err.code;
}

/* --- CPU samples of the traced processes: what functions that are left out take ------------- */

#define ROWS 20

struct samples {
	const struct options *o;
	char name[GROUP_NAME_MAX + 1];
	struct keys keys;
	struct keeper *keeper;
	struct draft *draft;
	uint64_t begun_ns;
};

static int attach(struct samples *s, struct bpffs *fs, int pids_fd, struct err *err)
{
	const struct attach_opts *all = &s->o->attach.attach;
	struct attach_opts opts = { .link = all->link,
		.filter = all->filter,
		.children = all->children,
		.pids_fd = pids_fd > 0 ? pids_fd : 0,
		.for_ns = all->for_ns,
		.access = ACCESS_PRIVATE,
		.kept = true,
		.processes = true,
		.keys = &s->keys,
		.stack_cnt = STACKS_USUAL,
		.stacks_python = true };
	struct attach_report report;
	int code;

	s->keys.rows = KEYS_USUAL;
	code = keys_add_stack(&s->keys, err);
	if (!code)
		code = draft_of_samples(s->o, s->name, &s->draft, err);
	if (!code)
		code = attach_draft(s->draft, &opts, fs, &report, err);
	bpffs_unlock(fs);
	return code;
}

int samples_begin(const struct options *o, struct bpffs *fs, int pids_fd,
	struct samples **ret_samples, struct err *err)
{
	struct samples *s = *ret_samples = xcalloc(1, sizeof(*s));
	int code;

	s->o = o;
	run_group_name(o, "_cpu", s->name);
	code = keeper_start(o->g->bpffs, s->name, &s->keeper, err);
	if (!code)
		code = attach(s, fs, pids_fd, err);
	if (code) {
		samples_free(s);
		*ret_samples = NULL;
	} else {
		s->begun_ns = clock_ns(CLOCK_MONOTONIC);
	}
	return code;
}

void samples_free(struct samples *s)
{
	if (!s)
		return;
	draft_free(s->draft);
	keeper_free(s->keeper);
	free(s);
}

char *samples_group(struct samples *s)
{
	return s->name;
}

int samples_show(struct samples *s)
{
	struct stats_options o = { .g = s->o->stats.g,
		.view = view_find("flat"),
		.view_set = true,
		.choice = { .top = ROWS, .no_kernel = true, .sort = s->o->stats.choice.sort },
		.format = s->o->stats.format,
		.of_command = s->o->stats.of_command,
		.past = true };
	char *name = s->name, text[TEXT_NUM_LEN];
	int status;

	o.names = (struct words) { &name, 1 };
	printf("On CPU, by samples of the last %s: also functions that are left out below\n",
		text_duration(clock_ns(CLOCK_MONOTONIC) - s->begun_ns, text));
	status = stats_options_run(&o);
	printf("\n");
	return status;
}
