// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop run at work: a group that lasts as long as somebody looks.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include "attach/attach.h"
#include "base/file.h"
#include "base/util.h"
#include "cli/cmd.h"
#include "group/notation.h"
#include "internal.h"
#include "kernel/kernel.h"
#include "pins/bpffs.h"
#include "proc/proc.h"
#include "show/list.h"
#include "show/text.h"
#include "stats/stats.h"
#include "target/kind.h"

/* --- unwind tables of files that stacks reach, and names of rows ---------------------------- */

/*
 * While funcsnoop run is active: files get their unwind tables as soon as the first stack reaches
 * them, and processes stopped for that are resumed. Rows of callers and kernels get their names
 * while their processes exist.
 */

/* Interval between two looks at the groups, in ns. */
#define WATCH_NS 10000000ULL

struct watch_group {
	struct group *group;
	struct holds *holds; /* or NULL */
	uint32_t met, rows; /* already handled */
};

struct watch {
	struct bpffs *fs;
	struct watch_group *groups;
	size_t cnt;
};

static struct watch *watch_new(struct bpffs *fs)
{
	struct watch *w = xcalloc(1, sizeof(*w));

	w->fs = fs;
	return w;
}

static void watch_free(struct watch *w)
{
	if (!w)
		return;
	for (size_t i = 0; i < w->cnt; i++) {
		holds_free(w->groups[i].holds);
		group_free(w->groups[i].group);
	}
	free(w->groups);
	free(w);
}

static bool is_watched(const struct watch *w, const char *name)
{
	return ANY_WHERE(w->cnt, i, !strcmp(group_name(w->groups[i].group), name));
}

/* A group that cannot be opened now is tried again. */
static void watch_add(struct watch *w, const char *name)
{
	struct watch_group new = {};

	if (group_open(w->fs, name, true, &new.group, NULL)) {
		group_free(new.group);
		return;
	}
	if (holds_open(w->fs, name, &new.holds, NULL))
		new.holds = NULL;
	*array_add(w->groups, w->cnt) = new;
}

/* A stopped process has reached a file without an unwind table. */
static void watch_look(struct watch *w, struct watch_group *g)
{
	pid_t pid = g->holds ? holds_next(g->holds) : 0;
	uint32_t met = stacks_met(g->group);

	if (!pid && met == g->met)
		return;
	g->met = met;
	/* A failure is retried at the next new file, or by the next command. */
	(void)!stacks_meet(w->fs, g->group, false, NULL);
	for (; pid; pid = holds_next(g->holds))
		holds_let_go(g->holds, pid);
}

static void watch_step(struct watch *w, const struct words *groups)
{
	for (size_t i = 0; i < groups->cnt; i++)
		if (!is_watched(w, groups->word[i]))
			watch_add(w, groups->word[i]);
	for (size_t i = 0; i < w->cnt; i++) {
		watch_look(w, &w->groups[i]);
		stats_name_rows(w->fs, w->groups[i].group, &w->groups[i].rows);
		if (w->groups[i].holds)
			holds_settle(w->groups[i].holds);
	}
}

#define SILENT_NS 1000000000ULL /* a longer attach prints its progress */
#define LOOK_NS   100000000ULL  /* between looks for the group, and for processes that died */

struct session {
	struct options *o;
	struct bpffs fs;
	struct preset_set *set;
	struct limited limited;
	struct keeper *keeper;
	struct await *await; /* libraries, or NULL */
	struct samples *samples; /* of the CPU time of functions that are left out, or NULL */
	bool no_samples; /* they failed, or the output is another one */
	size_t left_out;  /* functions, and .. */
	uint64_t calm_ns; /* .. until when their number must stay as it is */
	struct watch *watch; /* files that stacks lead through, or NULL */
	struct crash_watch *crashes; /* NULL before the group is attached */
	struct idle *idle; /* threads of --pid that slept before; NULL: their wait is not a call */
	struct started child;
	bool gone; /* COMMAND may run */
	struct terminal terminal; /* as it was before COMMAND */
	char *path;      /* of COMMAND */
	char *output;    /* a name of the standard output that is left to COMMAND */
	pid_t *pids;     /* with COMMAND: it alone */
	struct err born; /* why COMMAND could not begin */
	uint64_t start_ns;
	bool told;
	bool lacks; /* a library is not there yet */
};

/* --- what it says --------------------------------------------------------------------------- */

static bool is_silent(const struct session *s)
{
	return s->o->g->quiet || !isatty(STDERR_FILENO) ||
		clock_ns(CLOCK_MONOTONIC) - s->start_ns < SILENT_NS;
}

static void tell_attaching(void *arg)
{
	struct session *s = arg;

	if (s->told || is_silent(s))
		return;
	s->told = true;
	fprintf(stderr, "attaching to %zu function%s...\n", s->limited.draft->probed_cnt,
		s->limited.draft->probed_cnt == 1 ? "" : "s");
}

/* Runs in a helper process, which does not see whether its parent has printed progress. */
static void tell_progress(
	const char *what, const char *things, size_t done, size_t total, void *arg)
{
	if (!is_silent(arg))
		fprintf(stderr, "\r%s %zu of %zu %s%s", what, done, total, things,
			done == total ? "\n" : "");
}

/* Notes how many functions are sampled, only counted and left out, if any are. */
static void tell_bound(const struct session *s)
{
	struct bound bound;
	char text[1024];

	bound_count(s->limited.draft, &bound);
	if (!bound_limits(&bound))
		return;
	bound_text(&bound, &s->o->attach.attach.budget, text, sizeof(text));
	cmd_note(s->o->g, "%s", text);
}

/* Why probes that cost more than the limit are kept. */
static const char *kept_why(const struct attach_options *a)
{
	if (a->memory_usual)
		return "live bytes need every call; '--overhead 10%' limits it, without live bytes";
	return a->memory ? "live bytes need every call" : "functions selected by name are kept";
}

/* The @i-th group that is limited, or NULL: the libraries' groups take the place of the only one. */
static struct limited *limited_at(struct session *s, size_t i)
{
	if (s->await)
		return await_limited(s->await, i);
	return i ? NULL : &s->limited;
}

/* Notes the functions whose probes were removed while the group counted. */
static void tell_shed(const struct session *s, const struct limited *l)
{
	const struct budget *budget = &s->o->attach.attach.budget;
	size_t cnt = shed_tell(l->shed, l->draft);
	char text[1024];

	if (shed_over_share(l->shed) && !cnt)
		cmd_note(s->o->g,
			"the probes cost %.0f %% of the program's own CPU time, more than %g %%: %s",
			shed_over_share(l->shed) / 1e4, budget->share / 1e4,
			kept_why(&s->o->attach));
	if (cnt) {
		bound_shed_text(l->draft, cnt, budget, text, sizeof(text));
		cmd_note(s->o->g, "%s", text);
	}
}

/* Ends limiting, and says what it has done. */
static void end_limits(struct session *s)
{
	struct limited *l;

	for (size_t i = 0; (l = limited_at(s, i)); i++) {
		if (l->shed)
			tell_shed(s, l);
		shed_free(TAKE_PTR(l->shed));
	}
}

static void tell_attached(const struct session *s, size_t processes)
{
	const struct draft *draft = s->limited.draft;
	const struct object *first = draft->objects.object[0];
	const char *path = first->typed ? first->typed : first->path, *name = strrchr(path, '/');
	char mapped[64] = "";

	if (draft_has_files(draft))
		snprintf(mapped, sizeof(mapped), ", mapped by %zu process%s", processes,
			processes == 1 ? "" : "es");
	cmd_note(s->o->g, "attached to %zu function%s of %s%s%s%s", draft->probed_cnt,
		draft->probed_cnt == 1 ? "" : "s",
		name ? name + 1 : path,
		draft->objects.cnt > 1 ? " and others" : "", mapped,
		s->o->duration_ns ? "" : "; Ctrl-C ends");
	tell_bound(s);
}

/* --- beginning ------------------------------------------------------------------------------ */

static int draft_of_config(struct attach_options *a, const char *name,
	struct preset_set **ret_set, struct draft **ret_draft, struct err *err)
{
	const struct preset_group *group;
	int code = config_load(a->config, ret_set, err);

	if (code)
		return code;
	if (!a->words.cnt && (*ret_set)->group_cnt != 1)
		return err_set(err, -EINVAL, "%s has %zu groups: which one?", a->config,
			(*ret_set)->group_cnt);
	group = a->words.cnt ? preset_set_group(*ret_set, a->words.word[0])
			     : &(*ret_set)->groups[0];
	if (!group)
		return err_set(
			err, -ENOENT, "no group '%s' in %s", a->words.word[0], a->config);
	a->draft.name = name;
	return draft_group(a, group, false, ret_draft, err);
}

int run_draft(struct attach_options *a, const char *name, struct preset_set **ret_set,
	struct draft **ret_draft, struct err *err)
{
	return a->config ? draft_of_config(a, name, ret_set, ret_draft, err)
			 : draft_of_words(a, name, ret_set, ret_draft, err);
}

/* COMMAND waits, and only its calls will count. */
static int start_command(struct session *s, struct err *err)
{
	struct attach_opts *a = &s->o->attach.attach;
	int code;

	if (!s->o->command)
		return 0;
	code = proc_check_numbers(err);
	if (code)
		return code;
	s->pids = xcalloc(1, sizeof(*s->pids));
	terminal_save(&s->terminal);
	code = started_start(s->path, s->o->command, &s->child, err);
	if (code)
		return code;
	s->pids[0] = s->child.pid;
	a->filter.pids = s->pids;
	a->filter.pid_cnt = 1;
	a->unborn = true;
	return 0;
}

/* Nothing of this touches the kernel. */
static int prepare(struct session *s, size_t *ret_processes, struct err *err)
{
	struct attach_options *a = &s->o->attach;
	int code;

	kernel_rules(&a->draft.rules, a->attach.link);
	a->draft.program = s->path;
	a->attach.program = s->path;
	a->of_command = s->o->command;
	a->attach.for_ns = KEEPER_LEASE_NS;
	a->attach.kept = true;
	a->attach.streamed = s->o->streams;
	a->attach.children |= s->o->command && !s->o->no_children;
	a->draft.ret_lacks = s->o->command ? &s->lacks : NULL;
	code = run_draft(a, s->o->name, &s->set, &s->limited.draft, err);
	a->draft.ret_lacks = NULL;
	if (s->lacks) {
		cmd_note(s->o->g, "%s yet: waiting for it", err->msg);
		return 0;
	}
	if (code)
		return code;
	draft_note_left_out(a, s->limited.draft);
	return draft_check_hits(a, s->limited.draft, ret_processes, err);
}

/* True if a wait that begins is a call of the group: one that began before the attach is none. */
static bool counts_waits(const struct draft *draft)
{
	const struct target *t = draft->targets;

	return ANY_WHERE(draft->probed_cnt, i,
		t[i].kind->sleeps || (t[i].known && t[i].known->waits));
}

/* Before the attach: a thread that goes to sleep later is in flight. */
static void look_for_idle(struct session *s)
{
	const struct filter *f = &s->o->attach.attach.filter;

	if (!s->o->command && !f->tid_cnt && !f->comm_cnt && counts_waits(s->limited.draft))
		s->idle = idle_new(f->pids, f->pid_cnt);
}

#define TRIAL_LONG 256 /* functions: counting their calls first takes seconds */

/* --duration begins after the trial. */
static void tell_trial(const struct session *s)
{
	const struct draft *draft = s->limited.draft;

	if (draft->probed_cnt >= TRIAL_LONG && budget_tries(draft, &s->o->attach.attach))
		cmd_note(s->o->g,
			"counting calls of %zu functions first, to leave out those that cost too much; then %s",
			draft->probed_cnt,
			s->o->duration_ns ? "--duration begins" : "they are attached");
}

static int begin(struct session *s, struct err *err)
{
	struct attach_options *a = &s->o->attach;
	struct attach_report report;
	size_t processes = 0;
	int code;

	/* Before any target file is open: the processes that map target files are reported. */
	code = keeper_start(s->o->g->bpffs, s->o->name, &s->keeper, err);
	if (!code)
		code = prepare(s, &processes, err);
	/* A user who cannot attach must not create the directory: root would refuse it. */
	if (!code)
		code = attach_choose_link(&a->attach, err);
	if (!code)
		code = bpffs_open(s->o->g->bpffs, true, &s->fs, err);
	if (!code)
		code = start_command(s, err);
	if (!code && s->lacks)
		code = await_begin(s->o, &s->fs, &s->await, err);
	if (!code && !s->lacks) {
		look_for_idle(s);
		tell_trial(s);
	}
	if (!code && !s->lacks)
		code = budget_try(s->limited.draft, &a->draft, &a->attach, &s->fs, err);
	if (!code && !s->lacks)
		code = attach_draft(s->limited.draft, &a->attach, &s->fs, &report, err);
	/* If this fails, the overhead is unlimited. */
	if (!code && !s->lacks)
		(void)!shed_new(s->limited.draft, &a->attach, &report.price, &s->fs, &s->limited.shed);
	if (!code && (a->attach.stack_cnt || a->attach.keys || s->await))
		s->watch = watch_new(&s->fs);
	if (code)
		return err_wrap(err, "cannot attach group '%s'", s->o->name);
	bpffs_unlock(&s->fs);
	s->crashes = crash_watch_new(s->o->g, &s->fs, &a->attach.filter);
	if (!s->o->command)
		tell_attached(s, processes);
	else if (a->attach.children && processes)
		cmd_note(s->o->g,
			"to follow children, %zu other process%s pay%s for breakpoints, too; "
			"use --without children to spare them",
			processes, processes == 1 ? "" : "es", processes == 1 ? "s" : "");
	return 0;
}

/* --- looking -------------------------------------------------------------------------------- */

#define CALM_NS 500000000ULL

/* The first of the limited groups that lacks functions by now, or NULL. *@ret_cnt of all of them. */
static const struct shed *some_left_out(struct session *s, size_t *ret_cnt)
{
	const struct shed *first = NULL;
	struct limited *l;
	struct bound bound;

	*ret_cnt = 0;
	for (size_t i = 0; (l = limited_at(s, i)); i++) {
		if (!l->shed)
			continue;
		shed_tell(l->shed, l->draft);
		bound_count(l->draft, &bound);
		*ret_cnt += bound.cnt[LIMIT_LEFT_OUT];
		if (bound.cnt[LIMIT_LEFT_OUT] && !first)
			first = l->shed;
	}
	return first;
}

/* Only the table of functions has them above it, and only processes that are named are sampled. */
static bool shows_samples(const struct options *o)
{
	const struct stats_options *stats = &o->stats;

	return o->attach.attach.filter.pid_cnt && stats->view == view_find("function") &&
		stats->format == stats_format_find("table") && !stats->output && !stats->interval_ns &&
		!stats->watch && !stats->before && !o->streams;
}

/*
 * Samples when functions are left out and no more are: to attach takes time in which others that slow the
 * program down would not be removed. Without samples the table is still right.
 */
static void look_for_left_out(struct session *s)
{
	const struct shed *shed;
	size_t cnt;

	if (s->samples || s->no_samples || !shows_samples(s->o))
		return;
	shed = some_left_out(s, &cnt);
	if (cnt != s->left_out) {
		s->left_out = cnt;
		s->calm_ns = clock_ns(CLOCK_MONOTONIC) + CALM_NS;
	}
	if (!shed || ns_until(s->calm_ns))
		return;
	s->no_samples = samples_begin(s->o, &s->fs, shed_pids_fd(shed), &s->samples, NULL);
	if (s->samples && !s->watch)
		s->watch = watch_new(&s->fs);
}

/* While somebody looks on. */
static void look_for_files(struct session *s)
{
	char *name = s->o->name, *sampled;
	struct words groups = { &name, 1 };
	struct limited *l;

	keeper_mind(s->keeper);
	for (size_t i = 0; (l = limited_at(s, i)); i++)
		if (l->shed)
			shed_step(l->shed);
	look_for_left_out(s);
	if (s->await)
		await_groups(s->await, &groups);
	if (s->watch)
		watch_step(s->watch, &groups);
	if (s->samples) {
		sampled = samples_group(s->samples);
		watch_step(s->watch, &(struct words) { &sampled, 1 });
	}
	/* The screen is not ours while a table is redrawn on it. */
	if (!s->o->stats.watch)
		crash_watch_step(s->crashes, &groups);
}

/* For stats and stream: their eyes are open. */
static void let_command_go(void *arg)
{
	struct session *s = arg;

	if (s->await)
		await_step(s->await, false);
	if (!s->child.pid || s->gone)
		return;
	s->gone = true;
	started_forward_signals(&s->child);
	if (started_go(&s->child, &s->born))
		started_ended(&s->child);
}

static bool is_detached(const struct session *s)
{
	_cleanup_close_ int fd = -1;
	struct words groups = { .cnt = 1 };

	if (s->await)
		await_groups(s->await, &groups);
	if (!groups.cnt || !bpffs_open_group(&s->fs, s->o->name, &fd, NULL))
		return false;
	cmd_note(s->o->g, "the group was detached");
	return true;
}

static uint64_t time_left(struct session *s, uint64_t end_ns)
{
	uint64_t most = s->watch ? WATCH_NS : LOOK_NS, left = end_ns ? ns_until(end_ns) : most;
	struct limited *l;

	for (size_t i = 0; (l = limited_at(s, i)); i++)
		if (l->shed && shed_left_ns(l->shed) < most)
			most = shed_left_ns(l->shed);
	return left < most ? left : most;
}

/*
 * The parts of a summary are of the same time: it begins when the process that has started this one
 * answers. Without an answer, the time of this part began with its attach.
 */
static void begin_together(struct session *s, uint64_t *end_ns)
{
	_cleanup_close_ int fd = (int)s->o->ready_fd;
	_cleanup_group_ struct group *g = NULL;
	_cleanup_resets_ struct resets *resets = NULL;
	char go;

	if (write(fd, "", 1) != 1 || read(fd, &go, 1) != 1 || bpffs_lock(&s->fs, NULL))
		return;
	if (!group_open(&s->fs, s->o->name, true, &g, NULL)) {
		resets = resets_new(&g, 1);
		(void)!stats_reset(resets, 0, NULL, NULL, NULL);
	}
	bpffs_unlock(&s->fs);
	if (*end_ns)
		*end_ns = clock_ns(CLOCK_MONOTONIC) + s->o->duration_ns;
}

/* Without COMMAND: waits for a signal or the end of --duration. */
static bool wait_for_signal(struct session *s, uint64_t end_ns)
{
	struct sigaction hup;
	sigset_t set, before;
	bool there = true;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	if (!sigaction(SIGHUP, NULL, &hup) && hup.sa_handler != SIG_IGN)
		sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, &before);
	if (s->o->ready_fd)
		begin_together(s, &end_ns);
	while (there && (!end_ns || ns_until(end_ns))) {
		struct timespec ts = timespec_of(time_left(s, end_ns));

		if (sigtimedwait(&set, NULL, &ts) > 0)
			break;
		look_for_files(s);
		there = !is_detached(s);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	return there;
}

/* With @until_found, also returns when the first awaited function has been attached. */
static bool wait_for_command(struct session *s, uint64_t end_ns, bool until_found)
{
	struct pollfd p[] = { { .fd = s->child.fd, .events = POLLIN },
		{ .fd = -1, .events = POLLIN } };
	bool there = true, found = false;

	let_command_go(s);
	while (there && !found && (!end_ns || ns_until(end_ns))) {
		uint64_t left = time_left(s, end_ns), await_ns = s->await ? await_left(s->await) : left;
		struct timespec ts = timespec_of(await_ns < left ? await_ns : left);

		p[1].fd = s->await ? await_fd(s->await) : -1;
		if (ppoll(p, ARRAY_SIZE(p), &ts, NULL) > 0 && p[0].revents)
			break;
		found = s->await && await_step(s->await, until_found) && until_found;
		look_for_files(s);
		there = !is_detached(s);
	}
	return there;
}

void run_tell_idle(const struct globals *g, const struct idle *idle)
{
	pid_t pid = 0;
	size_t cnt = idle ? idle_count(idle, &pid) : 0;

	if (cnt)
		cmd_note(g, "%s waited since before the attach; 'funcsnoop stack %d' shows where",
			counted(cnt, "thread has", "threads have").text, pid);
}

static void tell_lost_children(const struct session *s)
{
	_cleanup_close_ int fd = -1;
	uint32_t lost;

	if (bpffs_open_group(&s->fs, s->o->name, &fd, NULL))
		return;
	lost = filter_lost_children(fd);
	if (lost)
		cmd_note(s->o->g,
			"calls of %u child%s are not counted: too many ran at once", lost,
			lost == 1 ? "" : "ren");
}

#define OPEN_SHOWN 12 /* calls of a thread: the first and the last ones */

/* "main > handle > parse": calls of a thread that have not returned, from @calls on. */
static void open_calls(const struct group *g, const struct slot_call *calls, size_t cnt,
	char *buf, size_t size)
{
	size_t len = 0, depth = 0, nth = 0;

	for (size_t i = 0; i < cnt; i++)
		depth += calls[i].tid == calls[0].tid;
	buf[0] = '\0';
	for (size_t i = 0; i < cnt && len < size; i++) {
		bool shown = depth <= OPEN_SHOWN || nth < OPEN_SHOWN / 2 ||
			nth + OPEN_SHOWN / 2 >= depth;

		if (calls[i].tid != calls[0].tid)
			continue;
		if (shown)
			len += snprintf(buf + len, size - len, "%s%s", nth ? " > " : "",
				group_func_title(g, calls[i].fn));
		else if (nth == OPEN_SHOWN / 2)
			len += snprintf(buf + len, size - len, " > ...");
		nth++;
	}
}

/* True if calls before @i are of its thread. */
static bool thread_told(const struct slot_call *calls, size_t i)
{
	return ANY_WHERE(i, k, calls[k].tid == calls[i].tid);
}

/* Writes the document of the tables for the summary that this run is a part of. */
static void write_document(const struct options *o)
{
	struct stats_options stats = o->stats;
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%u", o->document_fd);
	stats.format = stats_format_find("json");
	stats.output = path;
	stats.choice.top = 0;
	stats_options_run(&stats);
}

/* Each document is then of one moment, although its maps are read one after another. */
static void stop_groups(const struct session *s)
{
	const struct words *names = &s->o->stats.names;

	for (size_t i = 0; i < names->cnt; i++) {
		struct group *group = NULL;

		if (!group_open_brief(&s->fs, names->word[i], true, &group, NULL))
			group_stop(group);
		group_free(group);
	}
}

/*
 * Which signal ended COMMAND, and in which calls, but of the thread that was reported as crashed.
 * Before its calls are abandoned.
 */
static void tell_signal(const struct session *s)
{
	pid_t told = crash_watch_thread(s->crashes, s->child.pid);
	_cleanup_free_ struct slot_call *calls = NULL;
	_cleanup_group_ struct group *g = NULL;
	unsigned int signal = started_signal(&s->child);
	char text[1024], name[NOTATION_LEN];
	size_t cnt = 0, own = 0;

	if (!signal)
		return;
	signal_text(signal, name);
	if (!group_open(&s->fs, s->o->name, false, &g, NULL) && slots_read_dead(g, &calls, &cnt, NULL))
		cnt = 0;
	for (size_t i = 0; i < cnt; i++)
		if (calls[i].pid == s->child.pid)
			calls[own++] = calls[i];
	if (!own && !told)
		cmd_note(s->o->g, "%s ended process %d", name, s->child.pid);
	for (size_t i = 0; i < own; i++) {
		if (calls[i].tid == told || thread_told(calls, i))
			continue;
		open_calls(g, calls + i, own - i, text, sizeof(text));
		cmd_note(s->o->g, "%s ended thread %d in %s", name, calls[i].tid, text);
	}
}

/* While stats and stream look on. */
static void tick(void *arg)
{
	struct session *s = arg;

	if (s->await) {
		await_step(s->await, false);
		await_groups(s->await, &s->o->stats.names);
	}
	look_for_files(s);
}

/* Whether there is something to look at; who has brought it is held. */
static bool begin_to_come(struct session *s, uint64_t end_ns)
{
	struct words *names = &s->o->stats.names;

	await_groups(s->await, names);
	if (!names->cnt)
		wait_for_command(s, end_ns, true);
	await_groups(s->await, names);
	s->o->stream.names = *names;
	return names->cnt;
}

/* Ends waiting for libraries. await_end() has printed its errors. */
static int await_over(struct session *s, int status)
{
	struct err err;

	if (!s->await)
		return status;
	await_groups(s->await, &s->o->stats.names);
	return await_end(s->await, &err) && !status ? EXIT_FAILED : status;
}

/* Prints calls as they happen (with --stream), then the statistics. */
static int look(struct session *s)
{
	struct options *o = s->o;
	uint64_t end_ns = o->duration_ns ? clock_ns(CLOCK_MONOTONIC) + o->duration_ns : 0;
	int status = EXIT_DONE, table;
	bool there = true;

	if (s->await && (o->streams || o->stats.interval_ns))
		there = begin_to_come(s, end_ns);
	if (!there)
		return await_over(s, status);
	o->stats.until_fd = o->stream.until_fd = s->child.pid ? s->child.fd : 0;
	o->stats.ready = o->stream.ready = let_command_go;
	o->stats.ready_arg = o->stream.ready_arg = s;
	o->stats.tick = o->stream.tick = tick;
	o->stats.of_command = s->child.pid;
	o->stream.duration_ns = o->duration_ns;
	if (o->streams)
		status = stream_run(&o->stream);
	else if (o->stats.interval_ns || o->stats.watch)
		o->stats.duration_ns = o->duration_ns;
	else if (s->child.pid)
		there = wait_for_command(s, end_ns, false);
	else
		there = wait_for_signal(s, end_ns);
	if (s->child.pid && started_ended(&s->child))
		terminal_restore(&s->terminal);
	/*
	 * Intervals start now, and a stopped process stays stopped until the first one has
	 * started.
	 */
	if (s->await && o->stats.interval_ns)
		await_groups(s->await, &o->stats.names);
	else
		status = await_over(s, status);
	/* All that have died, now that their calls are printed. */
	for (int i = 0; i < 2; i++)
		crash_watch_step(s->crashes, &o->stats.names);
	if (s->child.pid && started_ended(&s->child))
		tell_signal(s);
	if (!there || s->born.code || !o->stats.names.cnt)
		return status;
	if (o->table_apart) {
		fflush(stdout);
		dup2(STDERR_FILENO, STDOUT_FILENO);
	}
	o->stats.past = true;
	/* First: the table below can have a row for each of very many functions. */
	if (s->samples)
		samples_show(s->samples);
	/* Rates are of the time until the reading. */
	if (!o->stats.interval_ns && !o->stats.watch)
		stop_groups(s);
	table = stats_options_run(&o->stats);
	if (o->document_fd)
		write_document(o);
	status = await_over(s, status);
	tell_lost_children(s);
	run_tell_idle(s->o->g, s->idle);
	return status ? status : table;
}

/* --- end ------------------------------------------------------------------------------------ */

static void session_done(struct session *s)
{
	started_done(&s->child);
	shed_free(s->limited.shed);
	watch_free(s->watch);
	samples_free(s->samples);
	crash_watch_free(s->crashes);
	idle_free(s->idle);
	await_free(s->await);
	keeper_free(s->keeper);
	draft_free(s->limited.draft);
	preset_set_free(s->set);
	free(s->path);
	free(s->output);
	free(s->pids);
	bpffs_close(&s->fs);
}

static int fail(const struct session *s, const struct err *err)
{
	int status = cmd_fail(s->o->g, err);

	return s->o->command && status != EXIT_USAGE ? EXIT_OWN_FAILURE : status;
}

/* Returns the exit status of shells for a command that cannot be executed. */
static int fail_to_run(const struct session *s, const struct err *err)
{
	cmd_fail(s->o->g, err);
	return err->code == -ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN;
}

/* Returns the status of COMMAND, or funcsnoop's own failure if COMMAND succeeded. */
static int end_of_command(struct session *s, int status)
{
	bool begun = !s->born.code;
	int its = started_wait(&s->child);

	terminal_restore(&s->terminal);
	if (begun || s->born.code == -ECHILD)
		return its ? its : status;
	return fail_to_run(s, &s->born);
}

/*
 * The standard output is COMMAND's: what we say goes to the standard error. An --output that
 * is another name of it, such as /dev/stdout, still is.
 */
static int leave_stdout(struct session *s, struct err *err)
{
	const char **output = s->o->streams ? &s->o->stream.output : &s->o->stats.output;
	int fd;

	if (*output && file_descriptor(*output) == STDOUT_FILENO) {
		fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
		if (fd < 0)
			return err_sys(err, -errno, "cannot open '%s'", *output);
		*output = s->output = xasprintf("/proc/self/fd/%d", fd);
	}
	fflush(stdout);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	return 0;
}

int run_session(struct options *o)
{
	__cleanup(session_done) struct session s = { .o = o,
		.fs = BPFFS_NONE,
		.child = STARTED_NONE,
		.start_ns = clock_ns(CLOCK_MONOTONIC) };
	struct err err = {};
	int status;

	text_set_width(o->width);
	o->attach.attach.progress = tell_progress;
	o->attach.attach.tick = tell_attaching;
	o->attach.attach.progress_arg = o->attach.attach.tick_arg = &s;
	signal(SIGCHLD, SIG_DFL);
	if (o->command && started_find(o->command[0], &s.path, &err))
		return fail_to_run(&s, &err);
	if (begin(&s, &err))
		return fail(&s, &err);
	if (s.child.pid && leave_stdout(&s, &err))
		return fail(&s, &err);
	status = look(&s);
	end_limits(&s);
	/* Close all maps, because the keeper waits until they are gone. */
	watch_free(TAKE_PTR(s.watch));
	samples_free(TAKE_PTR(s.samples));
	crash_watch_free(TAKE_PTR(s.crashes));
	if (keeper_finish(s.keeper, &err)) {
		err_wrap(&err, "cannot detach group '%s'", o->name);
		status = cmd_fail(o->g, &err);
	}
	return s.child.pid ? end_of_command(&s, status) : status;
}
