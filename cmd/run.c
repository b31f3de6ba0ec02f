// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop run: attaches a group, shows it and detaches it; runs COMMAND if there is one.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/util.h"
#include "group/notation.h"
#include "internal.h"
#include "proc/proc.h"
#include "show/text.h"
#include "target/kind.h"

#define ROWS "10"

static const struct part {
	const char *title; /* NULL: only its document is used */
	const char *args[8]; /* after `run` */
} parts[] = {
	{ "On CPU: functions, by samples", { "cpu", "--by", "flat", "--top", ROWS } },
	{ "Off CPU: where threads waited",
		{ "off-cpu", "--by", "stack", "--top", ROWS } },
	{ NULL, { "run-queue", "--by", "waker" } },
	{ "System calls, by time", { "syscalls", "--top", ROWS } },
};
enum { CPU, OFF_CPU, RUN_QUEUE };

struct running {
	pid_t pid;
	/* -1: not open; .ready_fd has a byte when the part is attached */
	int out_fd, document_fd, ready_fd;
};

static volatile sig_atomic_t told; /* the signal that is to end the parts */

static void note_signal(int signal)
{
	told = signal;
}

/* Returns the command line of @part for the processes of @o. The caller frees it. */
static char **line_of(const struct options *o, const struct part *part, int ready_fd, int document_fd,
	char (*numbers)[16])
{
	const pid_t *pids = o->attach.pids.of;
	size_t cnt = o->attach.pids.cnt, at = 0;
	char **argv = xcalloc(24 + ARRAY_SIZE(part->args) + 2 * cnt, sizeof(char *));

	argv[at++] = (char *)"funcsnoop";
	if (o->g->bpffs) {
		argv[at++] = (char *)"--bpffs";
		argv[at++] = (char *)o->g->bpffs;
	}
	argv[at++] = (char *)"run";
	for (size_t i = 0; i < ARRAY_SIZE(part->args) && part->args[i]; i++)
		argv[at++] = (char *)part->args[i];
	argv[at++] = (char *)"--quiet";
	for (size_t i = 0; i < cnt; i++) {
		snprintf(numbers[i], sizeof(numbers[i]), "%d%s", pids[i],
			o->attach.attach.children ? "+" : "");
		argv[at++] = (char *)"--pid";
		argv[at++] = numbers[i];
	}
	if (o->duration_ns) {
		snprintf(numbers[cnt], sizeof(numbers[cnt]), "%ums",
			(unsigned int)(o->duration_ns / 1000000));
		argv[at++] = (char *)"--duration";
		argv[at++] = numbers[cnt];
	}
	snprintf(numbers[cnt + 1], sizeof(numbers[cnt]), "%d", ready_fd);
	argv[at++] = (char *)"--ready-fd";
	argv[at++] = numbers[cnt + 1];
	snprintf(numbers[cnt + 3], sizeof(numbers[cnt]), "%d", document_fd);
	argv[at++] = (char *)"--document-fd";
	argv[at++] = numbers[cnt + 3];
	if (text_width()) {
		snprintf(numbers[cnt + 2], sizeof(numbers[cnt]), "%u", text_width());
		argv[at++] = (char *)"--width";
		argv[at++] = numbers[cnt + 2];
	}
	return argv;
}

static int start(const struct options *o, const struct part *part, struct running *ret_running,
	struct err *err)
{
	_cleanup_free_ char (*numbers)[16] =
		xcalloc(o->attach.pids.cnt + 4, sizeof(*numbers));
	int ready[2] = { -1, -1 }; /* ours, that of the part */
	sigset_t ends, before;
	pid_t parent = getpid();
	char **argv;

	ret_running->out_fd = memfd_create("funcsnoop", MFD_CLOEXEC);
	ret_running->document_fd = memfd_create("funcsnoop", MFD_CLOEXEC);
	if (ret_running->out_fd < 0 || ret_running->document_fd < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ready))
		return err_sys(err, -errno, "cannot run a part of the summary");
	ret_running->ready_fd = ready[0];
	argv = line_of(o, part, ready[1], ret_running->document_fd, numbers);
	fflush(NULL);
	/* A signal that ends the part must not go to this program's handler before execv(). */
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigprocmask(SIG_BLOCK, &ends, &before);
	ret_running->pid = fork();
	if (!ret_running->pid) {
		signal(SIGINT, SIG_DFL);
		signal(SIGTERM, SIG_DFL);
		sigprocmask(SIG_SETMASK, &before, NULL);
		/* A kill of this process must not leave the groups of the parts. */
		if (prctl(PR_SET_PDEATHSIG, SIGTERM) || getppid() != parent)
			_exit(EXIT_FAILED);
		dup2(ret_running->out_fd, STDOUT_FILENO);
		fcntl(ready[1], F_SETFD, 0);
		fcntl(ret_running->document_fd, F_SETFD, 0);
		execv("/proc/self/exe", argv);
		_exit(EXIT_FAILED);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (ret_running->pid < 0)
		err_sys(err, -errno, "cannot run a part of the summary");
	close(ready[1]);
	free(argv);
	return ret_running->pid > 0 ? 0 : err->code;
}

static void end_all(const struct running *running, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++)
		if (running[i].pid > 0)
			kill(running[i].pid, SIGINT);
}

/* Waits until all parts are attached. Returns false if one has ended, or a signal came, instead. */
static bool are_ready(const struct running *running, size_t cnt)
{
	char c;

	for (size_t i = 0; i < cnt; i++)
		if (read(running[i].ready_fd, &c, 1) != 1)
			return false;
	return true;
}

/* Begins the time of all parts, or, without @all_ready, continues them. */
static void let_go(struct running *running, size_t cnt, bool all_ready)
{
	char c;

	for (size_t i = 0; all_ready && i < cnt; i++)
		(void)!send(running[i].ready_fd, "", 1, MSG_NOSIGNAL);
	for (size_t i = 0; i < cnt; i++) {
		if (all_ready)
			(void)!read(running[i].ready_fd, &c, 1); /* the part closes its end then */
		close_fd(running[i].ready_fd);
		running[i].ready_fd = -1;
	}
}

static void tell_counting(const struct options *o)
{
	char text[TEXT_NUM_LEN];

	if (o->duration_ns)
		cmd_note(o->g, "counting for %s", text_duration(o->duration_ns, text));
	else if (!o->command)
		cmd_note(o->g, "counting until Ctrl-C");
}

/* Reaps parts that have ended. Returns 0 or the status of one that failed. */
static int look_for_ended(struct running *running, size_t cnt, size_t *ret_left)
{
	int status = 0, one;

	*ret_left = 0;
	for (size_t i = 0; i < cnt; i++) {
		if (running[i].pid <= 0)
			continue;
		if (waitpid(running[i].pid, &one, WNOHANG) != running[i].pid) {
			++*ret_left;
			continue;
		}
		running[i].pid = 0;
		if (one)
			status = WIFEXITED(one) ? WEXITSTATUS(one) : EXIT_FAILED;
	}
	return status;
}

/* CPU time and page faults at the start and the end of the summary. */
struct why {
	struct why_counts from, to;
	bool is_known, is_over;
};

static void begin_counts(const struct options *o, struct why *why)
{
	*why = (struct why) { .is_known = !o->attach.attach.children || o->command };
	if (!why->is_known || !why_count(o->attach.pids.of, o->attach.pids.cnt, &why->from))
		why->is_known = false;
	if (o->command)
		why->from.threads = 0;
}

static void end_counts(const struct options *o, const struct started *child, struct why *why)
{
	why->is_over = true;
	if (why->is_known)
		why->is_known = child->pid && started_ended(child)
			? why_count_command(child->pid, &why->to)
			: why_count(o->attach.pids.of, o->attach.pids.cnt, &why->to);
}

/*
 * Waits until all parts have ended, and returns as look_for_ended(). A signal, the exit of @child
 * and the first part that fails end the others. A terminal's Ctrl-C also reaches the parts directly.
 */
static int wait_for(const struct options *o, struct running *running, size_t cnt,
	const struct started *child, struct why *why)
{
	struct pollfd p = { .fd = child->fd, .events = POLLIN };
	uint64_t end_ns = o->duration_ns ? why->from.at_ns + o->duration_ns : UINT64_MAX, now;
	int status = 0, one;
	bool ended = false;

	for (size_t left = cnt; left;) {
		bool over = told || (child->pid && started_ended(child));

		if (!why->is_over && (over || clock_ns(CLOCK_MONOTONIC) >= end_ns))
			end_counts(o, child, why);
		one = look_for_ended(running, cnt, &left);
		status = status ? status : one;
		if (left && !ended && (status || over)) {
			ended = true;
			end_all(running, cnt);
		}
		now = clock_ns(CLOCK_MONOTONIC);
		if (left)
			poll(&p, child->pid && !ended, end_ns > now && end_ns - now < 20000000 ? (end_ns - now) / 1000000 : 20);
	}
	return status;
}

static void print_part(const struct part *part, const struct running *running)
{
	char buf[4096];
	ssize_t n;

	if (!part->title)
		return;
	printf("\n%s\n", part->title);
	lseek(running->out_fd, 0, SEEK_SET);
	while ((n = read(running->out_fd, buf, sizeof(buf))) > 0)
		fwrite(buf, 1, n, stdout);
}

static void print_processes(const struct options *o)
{
	const pid_t *pids = o->attach.pids.of;
	char comm[PROC_COMM_LEN];

	for (size_t i = 0; i < o->attach.pids.cnt; i++) {
		proc_comm(pids[i], pids[i], comm);
		printf("process %d, %s\n", pids[i], comm);
	}
}

static int check_processes(const struct options *o, struct err *err)
{
	const pid_t *pids = o->attach.pids.of;

	for (size_t i = 0; i < o->attach.pids.cnt; i++)
		if (!proc_thread("/proc", pids[i]))
			return err_set(err, -ESRCH, "there is no process %d", pids[i]);
	return 0;
}

/* Starts COMMAND, which waits for started_go(), as the process of --pid. */
static int start_command(struct options *o, struct started *child, struct err *err)
{
	_cleanup_free_ char *path = NULL;
	int code = started_find(o->command[0], &path, err);

	if (!code)
		code = started_start(path, o->command, child, err);
	if (code)
		return code;
	o->attach.pids.of = xcalloc(1, sizeof(pid_t));
	*(pid_t *)o->attach.pids.of = child->pid;
	o->attach.pids.cnt = 1;
	o->attach.attach.children = true;
	return 0;
}

/* The table goes to the standard error, because the standard output is that of COMMAND. */
static void leave_stdout(void)
{
	fflush(stdout);
	dup2(STDERR_FILENO, STDOUT_FILENO);
}

static void tell_signal(const struct options *o, const struct started *child)
{
	char name[NOTATION_LEN];
	unsigned int signal = started_signal(child);

	if (signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE || signal == SIGABRT)
		cmd_note(o->g, "%s ended process %d: with the target '%s:*' run shows its calls and stack",
			signal_text(signal, name), child->pid, o->command[0]);
	else if (signal)
		cmd_note(o->g, "%s ended process %d", signal_text(signal, name), child->pid);
}

static int fail(const struct options *o, const struct err *err)
{
	int status = cmd_fail(o->g, err);

	if (!o->command)
		return status;
	return err->code == -ENOENT ? EXIT_NOT_FOUND : err->code == -EACCES ? EXIT_NOT_RUN
									       : EXIT_OWN_FAILURE;
}

/*
 * Runs the parts until they end. Returns the status of the first that failed, or 0. Sets @err if a
 * part or COMMAND could not be started.
 */
static int run_parts(struct options *o, struct running *running, struct started *child,
	struct why *why, struct err *err)
{
	bool ready;
	int code = 0;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		running[i] = (struct running) { .out_fd = -1, .document_fd = -1, .ready_fd = -1 };
	for (size_t i = 0; !code && i < ARRAY_SIZE(parts); i++)
		code = start(o, &parts[i], &running[i], err);
	if (code)
		end_all(running, ARRAY_SIZE(parts));
	ready = !code && are_ready(running, ARRAY_SIZE(parts));
	let_go(running, ARRAY_SIZE(parts), ready);
	begin_counts(o, why);
	if (ready)
		tell_counting(o);
	if (child->pid && ready) {
		started_forward_signals(child);
		if (started_go(child, err))
			started_ended(child);
	}
	return wait_for(o, running, ARRAY_SIZE(parts), child, why);
}

/* Summarizes the activity of --pid or COMMAND if no group is given. */
static int run_summary(struct options *o)
{
	struct sigaction action = { .sa_handler = note_signal }, before[2];
	struct running running[ARRAY_SIZE(parts)];
	_cleanup_started_ struct started child = STARTED_NONE;
	struct idle *idle = NULL;
	struct err err = {};
	struct why why = {};
	int status, ended = 0;

	signal(SIGCHLD, SIG_DFL);
	if (o->command ? start_command(o, &child, &err) : check_processes(o, &err))
		return fail(o, &err);
	if (o->command)
		leave_stdout();
	sigaction(SIGINT, &action, &before[0]);
	sigaction(SIGTERM, &action, &before[1]);
	if (!o->command || o->duration_ns)
		cmd_note(o->g, "attaching the probes of four groups");
	if (!o->command) {
		print_processes(o);
		idle = idle_new(o->attach.pids.of, o->attach.pids.cnt);
	}
	status = run_parts(o, running, &child, &why, &err);
	sigaction(SIGINT, &before[0], NULL);
	sigaction(SIGTERM, &before[1], NULL);
	if (!status && !err.code && why.is_known)
		why_print(&why.from, &why.to, running[CPU].document_fd, running[OFF_CPU].document_fd,
			running[RUN_QUEUE].document_fd);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (!status && !err.code)
			print_part(&parts[i], &running[i]);
		close_fd(running[i].out_fd);
		close_fd(running[i].document_fd);
	}
	fflush(stdout);
	if (!status && !err.code)
		run_tell_idle(o->g, idle);
	idle_free(idle);
	if (err.code)
		return fail(o, &err);
	if (child.pid && child.go_fd < 0) {
		tell_signal(o, &child);
		ended = started_wait(&child);
	}
	return ended ? ended : status;
}

/* Without a group --pid alone makes a summary; these need one. */
#define NOT_OF_SUMMARY                                                                       \
	"config|name|lib|regex|json|pretty|format|stream|interval|watch|by|sort|key|sum|by stack|" \
	"slow|output|save|diff|fail-if|count|sample|with memory|children|if|if tid|if cpu|"        \
	"if comm|if uid|if cgroup"

/* Options that make no sense together: why, or NULL. */
static const char *contradiction(const struct options *o)
{
	if (o->attach.attach.children && !o->command && !o->attach.draft.pid_cnt)
		return "--children needs --pid: whose?";
	if (o->no_children && !o->command)
		return "--without children goes with COMMAND only";
	if (o->command && o->stats.watch)
		return "--watch needs the screen, which is COMMAND's";
	if (o->attach.config && o->attach.words.cnt > 1)
		return "--config goes with one group";
	if (o->command && o->attach.draft.pid_cnt)
		return "--pid and COMMAND exclude each other";
	if (o->command && o->attach.attach.filter.tid_cnt)
		return "'tid' of --if and COMMAND exclude each other";
	return NULL;
}

/* Machine-readable output must not be mixed with the output of COMMAND. */
static const char *contradiction_of_format(struct options *o)
{
	bool machine = o->streams ? o->stream.format != stream_format_find("text")
				  : o->stats.format != stats_format_find("table");

	if (machine && o->command && !(o->streams ? o->stream.output : o->stats.output))
		return "with COMMAND, JSON and other formats go to a file: --output";
	o->table_apart = machine && o->streams && !o->stream.output;
	return NULL;
}

/* Writes NAME-PID, which no other group has. A long NAME is truncated. */
void run_group_name(const struct options *o, const char *suffix, char *ret_name)
{
	const struct attach_options *a = &o->attach;
	const char *name = a->name ? a->name : a->words.cnt ? a->words.word[0] : "run";
	char end[32];

	snprintf(end, sizeof(end), "-%d%s", getpid(), suffix);
	snprintf(ret_name, GROUP_NAME_MAX + 1, "%.*s%s", (int)(GROUP_NAME_MAX - strlen(end)),
		name, end);
}

/* Returns why the group cannot have the figures of the view, or NULL. */
static const char *contradiction_of_view(const struct options *o)
{
	const struct attach_options *a = &o->attach;
	const struct view *view = o->stats.view;

	if (view->flags & (VIEW_PROCESSES | VIEW_CGROUPS) && !a->attach.processes)
		return "--by process and --by cgroup cannot be combined with --without processes";
	if (o->stats.tree && !a->attach.nesting)
		return "--show tree cannot be combined with --sample";
	if (view->flags & VIEW_SLEEPS && a->draft.rules.count_only)
		return "--by blocked-in cannot be combined with --count";
	return NULL;
}

/* Records all that the table shows, without more options. */
static bool show_recorded(struct options *o)
{
	bool stacks = o->stats.view->flags & (VIEW_STACKS | VIEW_SLEEPS) ||
		o->stats.format->flags & FORMAT_STACKS;

	o->attach.attach.split |= (o->stats.view->flags & VIEW_SLEEPS) != 0;
	return attach_options_show(
		&o->attach, o->stats.choice.by, o->stats.choice.by_cnt, stacks);
}

/* Options that belong to the stream with --stream, else to the table. */
static int read_views(struct options *o, struct err *err)
{
	unsigned int on = o->streams ? ON_STREAM : ON_STATS;
	int code = 0;

	*(o->streams ? &o->stream.output : &o->stats.output) = o->output;
	if (o->format)
		code = option_read(o, option_find(on, "format"), (char *)o->format, err);
	if (!code && o->show_slow)
		code = option_read(o, option_find(on, o->streams ? "only slow" : "show slow"), NULL, err);
	return code;
}

/*
 * True if GROUP was omitted and the first word is a FUNCTION: it is not a valid group name, or it
 * is not a preset and the command line names the libraries. Otherwise the preset of that name is
 * stored, if there is one.
 */
static bool starts_with_function(const struct options *o, struct preset_set **ret_preset)
{
	const struct attach_options *a = &o->attach;

	if (!o->words.cnt || a->config)
		return false;
	if (strpbrk(o->words.word[0], ":*?[(+/~"))
		return true;
	for (size_t i = 1; i < o->words.cnt; i++)
		if (a->libs.cnt || strchr(o->words.word[i], ':'))
			return false;
	return preset_find(o->words.word[0], ret_preset, NULL) == -ENOENT &&
		(a->libs.cnt || a->pids.cnt || o->command);
}

/* True if all targets are events, such as system calls, whose stacks begin at the event. */
static bool are_events(const struct attach_options *a, const struct preset_set *preset)
{
	const struct preset_group *group = preset ? &preset->groups[0] : NULL;
	bool some = false;

	if (a->config)
		return false;
	for (size_t i = 0; group && a->words.cnt == 1 && i < group->func_cnt; i++, some = true)
		if (!group->funcs[i].is_target || !target_kind_of(group->funcs[i].symbol)->stacks)
			return false;
	for (size_t i = 1; i < a->words.cnt; i++, some = true)
		if (!target_kind_of(a->words.word[i])->stacks)
			return false;
	return some;
}

/* Only functions of programs have a caller: the stack of an event is the nearest thing. */
static void show_callers_as_stacks(struct options *o, const struct preset_set *preset)
{
	struct stats_options *s = &o->stats;

	if (!s->by_text || strcmp(s->by_text, "caller") || !are_events(&o->attach, preset))
		return;
	cmd_note(o->g, "only calls of functions of programs and libraries have a known caller: --by stack instead");
	s->choice.by_cnt = 0;
	s->view = view_find("stack");
}

/*
 * Live bytes are the default of @preset if it is of allocators, unless all processes of the machine
 * are probed.
 */
static void choose_memory(struct options *o, const struct preset_set *preset)
{
	struct attach_options *a = &o->attach;

	if (preset && !a->memory && (a->pids.cnt || o->command) && a->words.cnt == 1)
		a->memory = a->memory_usual = draft_suits_memory(a, &preset->groups[0]);
}

/* The default table of live bytes is by caller, their default key. */
static int show_memory(struct options *o, struct err *err)
{
	static char caller[] = "caller";
	const struct attach_options *a = &o->attach;

	if (!a->caller_usual || o->stats.view_set || o->stats.watch || o->format ||
		o->stats.g->json)
		return 0;
	return option_read(o, option_find(ON_RUN, "by"), caller, err);
}

/* Stacks that the line records with --stacks are the table, unless another one is chosen. */
static int show_stacks(struct options *o, struct err *err)
{
	static char stack[] = "stack";

	if (!o->attach.attach.stack_cnt || o->streams || o->stats.view_set || o->stats.watch ||
		o->format || o->stats.g->json)
		return 0;
	return read_by(&o->stats, option_find(ON_RUN, "by"), stack, err);
}

/* --json applies to the stream with --stream, else to the table: each has its own globals. */
static bool finish(struct options *o, struct globals *stats_g, struct globals *stream_g)
{
	struct preset_set *preset = NULL;
	struct words *words = &o->words;
	struct err err = {};
	const char *wrong;

	if (starts_with_function(o, &preset)) {
		*--words->word = (char *)"run";
		words->cnt++;
	}
	o->attach.words = *words;
	*stats_g = *stream_g = *o->g;
	stats_g->json &= !o->streams;
	o->stats.g = stats_g;
	o->stream.g = stream_g;
	choose_memory(o, preset);
	show_callers_as_stacks(o, preset);
	preset_set_free(preset);
	if (!attach_options_finish(&o->attach))
		return false;
	run_group_name(o, "", o->name);
	o->names[0] = o->name;
	o->stats.names = o->stream.names = (struct words) { o->names, 1 };
	if (read_views(o, &err) || show_memory(o, &err) || show_stacks(o, &err)) {
		cmd_usage(o->g, "%s", err.msg);
		return false;
	}
	if (!stats_options_finish(&o->stats) || (o->streams && !stream_options_finish(&o->stream)) ||
		!show_recorded(o))
		return false;
	wrong = contradiction(o);
	if (!wrong)
		wrong = contradiction_of_view(o);
	if (!wrong)
		wrong = contradiction_of_format(o);
	if (wrong)
		cmd_usage(o->g, "%s", wrong);
	return !wrong;
}

/* "./prog": a file to be run, and not one of the functions of a library. */
static bool is_program(const char *word)
{
	struct stat st;

	return strchr(word, '/') && !strchr(word, ':') && !strstr(word, ".so") &&
		!stat(word, &st) && S_ISREG(st.st_mode) && !access(word, X_OK);
}

/* Cuts COMMAND off the line: at the first "--", or where a program is the first word. */
static char **cut_command(const struct globals *g, int *argc, char **argv, char **ret_first)
{
	int first = cmd_first_word(g, ON_RUN, *argc, argv);

	if (first && is_program(argv[first])) {
		*ret_first = argv[first];
		*argc = first;
		return argv + first;
	}
	for (int i = 1; i < *argc; i++)
		if (!strcmp(argv[i], "--")) {
			*argc = i;
			argv[i] = NULL;
			return argv + i + 1;
		}
	return NULL;
}

/* True if @command is a program, with "-p PID" of a process that runs it already. */
static bool runs_already(char *const *command)
{
	struct stat program, exe;
	char path[64];

	for (size_t i = 1; command[i] && command[i + 1]; i++) {
		if (strcmp(command[i], "-p") != 0 && strcmp(command[i], "--pid") != 0)
			continue;
		snprintf(path, sizeof(path), "/proc/%.20s/exe", command[i + 1]);
		if (!stat(path, &exe) && !stat(command[0], &program) && exe.st_dev == program.st_dev &&
			exe.st_ino == program.st_ino)
			return true;
	}
	return false;
}

/* Options of functions, and none is named. */
static int hint_functions(const struct globals *g, const char *program)
{
	struct err err = {};

	err_set(&err, -ERR_USAGE, "no function of '%s' is named", program);
	err_hint(&err, "use '%s:*' for all functions of that file", program);
	return cmd_fail(g, &err);
}

static int run(struct globals *g, int argc, char **argv)
{
	char *bare = NULL, **command = cut_command(g, &argc, argv, &bare);
	_cleanup_options_ struct options o;
	struct globals stats_g, stream_g;
	struct err err = {};

	cmd_parse(g, &cmd_run, argc, argv, &o);
	o.command = command;
	if (command && !command[0])
		return cmd_usage(g, "no command after '--'");
	/* "run ./prog -- ./prog": no arguments of a program begin with "--" alone. */
	if (bare && (runs_already(command) || (command[1] && !strcmp(command[1], "--"))))
		return hint_functions(g, bare);
	if (!o.words.cnt && !o.attach.pids.cnt != !command && !option_given(NOT_OF_SUMMARY))
		return run_summary(&o);
	if (bare && !o.words.cnt && !o.attach.config)
		return hint_functions(g, bare);
	if (!finish(&o, &stats_g, &stream_g))
		return EXIT_USAGE;
	/* A file that cannot be read is an error before anything is attached. */
	if (o.stats.diff_path && saved_read(o.stats.diff_path, &o.stats.before, &err))
		return cmd_fail(g, &err);
	return run_session(&o);
}

const struct command cmd_run = { "run", "GROUP ... [-- COMMAND ...]",
	"attach, show, detach; around COMMAND", run, ON_RUN,
	"GROUP [FUNCTION...] [-- COMMAND [ARG...]]\nLIB:FUNCTION... [-- COMMAND [ARG...]]\n--pid PID\n[--] COMMAND [ARG...]",
	"Probe functions, show their calls, and remove the probes.\v"
	"Example: funcsnoop run cuda --slow 1ms --stream -- python3 train.py" };
