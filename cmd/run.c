// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop run: attaches a group, shows it and detaches it; runs COMMAND if there is one.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

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
 * is not a preset and the command line names the libraries.
 */
static bool starts_with_function(const struct options *o)
{
	const struct attach_options *a = &o->attach;
	struct preset_set *set = NULL;
	int code;

	if (!o->words.cnt || a->config)
		return false;
	if (strpbrk(o->words.word[0], ":*?[(+/~"))
		return true;
	for (size_t i = 1; i < o->words.cnt; i++)
		if (a->libs.cnt || strchr(o->words.word[i], ':'))
			return false;
	code = preset_find(o->words.word[0], &set, NULL);
	preset_set_free(set);
	return code == -ENOENT && (a->libs.cnt || a->pids.cnt || o->command);
}

/* --json applies to the stream with --stream, else to the table: each has its own globals. */
static bool finish(struct options *o, struct globals *stats_g, struct globals *stream_g)
{
	struct words *words = &o->words;
	struct err err = {};
	const char *wrong;

	if (starts_with_function(o)) {
		*--words->word = (char *)"run";
		words->cnt++;
	}
	o->attach.words = *words;
	*stats_g = *stream_g = *o->g;
	stats_g->json &= !o->streams;
	o->stats.g = stats_g;
	o->stream.g = stream_g;
	if (!attach_options_finish(&o->attach))
		return false;
	run_group_name(o, "", o->name);
	o->names[0] = o->name;
	o->stats.names = o->stream.names = (struct words) { o->names, 1 };
	if (read_views(o, &err)) {
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
