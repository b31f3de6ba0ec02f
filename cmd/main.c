// SPDX-License-Identifier: BSD-2-Clause
// The dispatcher: global options, the table of commands, help and version.
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "cmd.h"
#include "json.h"
#include "log.h"
#include "suggest.h"
#include "text.h"
#include "usage.h"
#include "version.h"

static int run_help(struct globals *g, int argc, char **argv);
static int run_version(struct globals *g, int argc, char **argv);

static const struct command cmd_help = { "help", "[COMMAND]", "help on a command", run_help };
static const struct command cmd_version = { "version", "", "versions of funcsnoop and libbpf",
	run_version };

const struct command *const commands[] = { &cmd_attach, &cmd_list, &cmd_stats, &cmd_stream,
	&cmd_reset, &cmd_set, &cmd_detach, &cmd_feature, &cmd_help, &cmd_version, NULL };

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; commands[i]; i++)
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	return NULL;
}

/* --- global options ------------------------------------------------------------------------- */

enum { KEY_BPFFS = 0x1000, KEY_COLOR, KEY_PRETTY, KEY_DEBUG, KEY_USAGE };

/* -p and -d have these meanings before the command only: after it they are its own. */
#define GLOBAL_OPTIONS                                                                        \
	{ "json", 'j', NULL, 0, NULL, USAGE_GLOBAL },                                         \
	{ "bpffs", KEY_BPFFS, "DIR", 0, NULL, USAGE_GLOBAL },                                 \
	{ "quiet", 'q', NULL, 0, NULL, USAGE_GLOBAL },                                        \
	{ "color", KEY_COLOR, "auto|always|never", 0, NULL, USAGE_GLOBAL },                   \
	{ "help", 'h', NULL, 0, NULL, USAGE_GLOBAL },                                         \
	{ NULL, '?', NULL, OPTION_HIDDEN, NULL, USAGE_GLOBAL }

static const struct argp_option after_options[] = { GLOBAL_OPTIONS,
	{ "pretty", KEY_PRETTY, NULL, 0, NULL, USAGE_GLOBAL },
	{ "debug", KEY_DEBUG, NULL, 0, NULL, USAGE_GLOBAL },
	{ "usage", KEY_USAGE, NULL, 0, NULL, USAGE_GLOBAL }, { 0 } };

static const struct argp_option before_options[] = { GLOBAL_OPTIONS,
	{ "pretty", 'p', NULL, 0, NULL, USAGE_GLOBAL },
	{ "debug", 'd', NULL, 0, NULL, USAGE_GLOBAL },
	{ "version", 'V', NULL, 0, NULL, USAGE_GLOBAL },
	{ "usage", KEY_USAGE, NULL, OPTION_HIDDEN, NULL, USAGE_GLOBAL }, { 0 } };

static void print_log(const char *line)
{
	fprintf(stderr, "%s\n", line);
}

static error_t parse_color(const char *arg, struct argp_state *state, struct globals *g)
{
	static const char *const names[] = { "auto", "always", "never" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(arg, names[i])) {
			g->color = (enum color)i;
			return 0;
		}
	argp_error(state, "--color is auto, always or never, not '%s'", arg);
	return EINVAL;
}

static error_t parse_global(int key, char *arg, struct argp_state *state)
{
	struct globals *g = state->input;

	switch (key) {
	case 'j':
		g->json = true;
		return 0;
	case 'p':
	case KEY_PRETTY:
		g->json = g->pretty = true;
		return 0;
	case 'd':
	case KEY_DEBUG:
		g->debug = true;
		log_init(print_log);
		return 0;
	case 'q':
		g->quiet = true;
		return 0;
	case KEY_BPFFS:
		g->bpffs = arg;
		return 0;
	case KEY_COLOR:
		return parse_color(arg, state, g);
	case 'h':
	case '?':
		usage_help(state->root_argp, g->command);
	case KEY_USAGE:
		argp_state_help(state, stdout, ARGP_HELP_USAGE | ARGP_HELP_EXIT_OK);
		return 0;
	case ARGP_KEY_INIT:
		usage_capture(state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* --- a command's line ----------------------------------------------------------------------- */

struct line {
	struct globals *g;
	void *input;
	struct words *words;
};

static error_t parse_line(int key, char *arg, struct argp_state *state)
{
	struct line *line = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[USAGE_OWN] = line->input;
		state->child_inputs[USAGE_EVERYWHERE] = line->g;
		return 0;
	case ARGP_KEY_ARG:
		if (line->words)
			return ARGP_ERR_UNKNOWN;
		argp_error(state, "takes no argument '%s'", arg);
		return EINVAL;
	case ARGP_KEY_ARGS:
		*line->words = (struct words) { state->argv + state->next,
			state->argc - state->next };
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

void cmd_parse(struct globals *g, const struct argp *argp, int argc, char **argv, void *input,
	struct words *words)
{
	static const struct argp globals = { .options = after_options,
		.parser = parse_global };
	const struct argp_child children[] = { [USAGE_OWN] = { .argp = argp },
		[USAGE_EVERYWHERE] = { .argp = &globals }, {} };
	const struct argp whole = { .parser = parse_line, .children = children };
	struct line line = { g, input, words };

	usage_parse(g, &whole, 0, argc, argv, &line);
}

/* --- messages ------------------------------------------------------------------------------- */

static void print_message(const struct globals *g, const char *message)
{
	char *safe = text_escape(message);

	fprintf(stderr, "funcsnoop%s%s: %s\n", g->command ? " " : "",
		g->command ? g->command : "", safe ? safe : "out of memory");
	free(safe);
}

void cmd_show_error(const struct globals *g, const struct err *err)
{
	_cleanup_free_ char *hint = text_escape(err->hint);

	print_message(g, err->msg);
	if (hint && *hint)
		fprintf(stderr, "hint: %s\n", hint);
}

int cmd_fail(const struct globals *g, const struct err *err)
{
	cmd_show_error(g, err);
	if (g->json)
		json_error(g, err->msg);
	return EXIT_FAILED;
}

int cmd_usage(const struct globals *g, const char *fmt, ...)
{
	char message[ERR_MSG_LEN];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	print_message(g, message);
	fprintf(stderr, "hint: 'funcsnoop help%s%s' shows the usage\n", g->command ? " " : "",
		g->command ? g->command : "");
	if (g->json)
		json_error(g, message);
	return EXIT_USAGE;
}

void cmd_note(const struct globals *g, const char *fmt, ...)
{
	char message[ERR_MSG_LEN];
	va_list ap;

	if (g->quiet)
		return;
	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	print_message(g, message);
}

/* --- help, version -------------------------------------------------------------------------- */

static void print_usage(FILE *f)
{
	fprintf(f, "Usage: funcsnoop [OPTION...] COMMAND ...\n"
		   "Count and time calls of user-space functions.\n\n");
	for (size_t i = 0; commands[i]; i++)
		fprintf(f, "  %-8s %-28s %s\n", commands[i]->name, commands[i]->args,
			commands[i]->summary);
	fprintf(f, "\n"
		   "  -j, --json         print JSON, also of errors\n"
		   "      --bpffs=DIR    use this bpffs (default /sys/fs/bpf)\n"
		   "  -h, --help         this text; 'funcsnoop help COMMAND' says more\n"
		   "Also: -p|--pretty, -q|--quiet, -d|--debug, --color=auto|always|never,\n"
		   "  -V|--version\n"
		   "\n"
		   "Examples:\n"
		   "  funcsnoop attach cuda     probe the CUDA runtime; the command ends\n"
		   "  funcsnoop stats           what was called since, how often, how long\n"
		   "  funcsnoop detach cuda     remove every trace of it\n");
}

static int unknown_command(const struct globals *g, const char *name)
{
	struct suggest near;
	char text[256];

	suggest_init(&near, name);
	for (size_t i = 0; commands[i]; i++)
		suggest_offer(&near, commands[i]->name, NULL);
	if (suggest_text(&near, text, sizeof(text)))
		return cmd_usage(g, "unknown command '%s'; %s?", name, text);
	return cmd_usage(g, "unknown command '%s'", name);
}

static int run_help(struct globals *g, int argc, char **argv)
{
	char *help_argv[] = { NULL, "--help", NULL };
	const struct command *command;

	if (argc > 1 && argv[1][0] == '-')
		argc = 1;
	if (argc < 2) {
		print_usage(stdout);
		return EXIT_DONE;
	}
	command = find_command(argv[1]);
	if (!command) {
		g->command = NULL;
		return unknown_command(g, argv[1]);
	}
	if (command == &cmd_help || command == &cmd_version) {
		print_usage(stdout);
		return EXIT_DONE;
	}
	help_argv[0] = argv[1];
	g->command = command->name;
	return command->run(g, 2, help_argv);
}

static int run_version(struct globals *g, int argc, char **argv)
{
	static const struct argp argp = {};

	cmd_parse(g, &argp, argc, argv, NULL, NULL);
	if (g->json)
		return json_version(g, FUNCSNOOP_VERSION, version_libbpf());
	printf("funcsnoop %s\nusing libbpf %s\n", FUNCSNOOP_VERSION, version_libbpf());
	return EXIT_DONE;
}

/* --- main ----------------------------------------------------------------------------------- */

struct first {
	struct globals *g;
	int command; /* index in argv, or 0 */
	bool version;
};

static error_t parse_first(int key, char *arg, struct argp_state *state)
{
	struct first *first = state->input;

	switch (key) {
	case 'V':
		first->version = true;
		return 0;
	case 'h':
	case '?':
	case KEY_USAGE:
		print_usage(stdout);
		exit(EXIT_DONE);
	case ARGP_KEY_ARG:
		first->command = state->next - 1;
		state->next = state->argc;
		return 0;
	default:
		state->input = first->g;
		key = parse_global(key, arg, state);
		state->input = first;
		return key;
	}
}

/* A full disk or a closed pipe must not pass for success. A command that failed said why. */
static int check_stdout(const struct globals *g, int status)
{
	struct err err = {};

	if ((!fflush(stdout) && !ferror(stdout)) || status)
		return status;
	if (errno == EPIPE)
		return EXIT_FAILED;
	err_sys(&err, -errno, "cannot write output");
	print_message(g, err.msg);
	return EXIT_FAILED;
}

int main(int argc, char **argv)
{
	static const struct argp argp = { .options = before_options, .parser = parse_first };
	struct globals g = {};
	struct first first = { .g = &g };
	const struct command *command;

	argp_err_exit_status = EXIT_USAGE;
	log_init(NULL);
	usage_parse(&g, &argp, ARGP_IN_ORDER, argc, argv, &first);
	if (first.version) {
		char *version_argv[] = { "version", NULL };

		g.command = "version";
		return check_stdout(&g, run_version(&g, 1, version_argv));
	}
	if (!first.command) {
		print_usage(stderr);
		return EXIT_USAGE;
	}
	command = find_command(argv[first.command]);
	if (!command)
		return unknown_command(&g, argv[first.command]);
	g.command = command->name;
	return check_stdout(&g,
		command->run(&g, argc - first.command, argv + first.command));
}
