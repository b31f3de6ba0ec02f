// SPDX-License-Identifier: BSD-2-Clause
// The dispatcher: global options, the table of commands, help and version.
#include "base/err.h"
#include "base/text.h"
#include "base/util.h"
#include "cli/options.h"
#include "pins/bpffs.h"
#include "show/text.h"

static int run_help(struct globals *g, int argc, char **argv);
static int run_version(struct globals *g, int argc, char **argv);

static const struct command cmd_help = { "help", "[COMMAND]", "help on a command", run_help, 0,
	NULL, NULL };
static const struct command cmd_version = { "version", "", "versions of funcsnoop and libbpf",
	run_version, ON_VERSION, NULL, "Show the versions of funcsnoop and libbpf.\v" };

static const struct command *const commands[] = { &cmd_run, &cmd_attach, &cmd_list, &cmd_stats, &cmd_stream,
	&cmd_stack, &cmd_serve, &cmd_compare, &cmd_reset, &cmd_set, &cmd_detach, &cmd_feature, &cmd_help, &cmd_version, NULL };

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; commands[i]; i++)
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	return NULL;
}

/* Breakpoints that a killed command left, and that can't be taken away. */
static void tell_breaks(const struct err *what, void *arg)
{
	const struct globals *g = arg;

	if (!g->quiet)
		cmd_show_error(g, what);
}

/* --- help, version -------------------------------------------------------------------------- */

static void print_usage(FILE *f)
{
	fprintf(f, "Usage: funcsnoop [OPTION...] COMMAND ...\n"
		   "Count and time function calls, system calls, waits of threads and other events.\n\n");
	for (size_t i = 0; commands[i]; i++)
		fprintf(f, "  %-8s %-28s %s\n", commands[i]->name, commands[i]->args,
			commands[i]->summary);
	fprintf(f, "\n");
	help_named(f, "Options", ON_FIRST, GROUP_COMMON);
	fprintf(f, "'funcsnoop help COMMAND' describes a command and its options.\n"
		   "Example: funcsnoop run cuda -d 10   count CUDA runtime calls for 10 s\n");
}

/* @words: what follows @name on the line, or NULL. */
static int unknown_command(const struct globals *g, const char *name, char *const *words)
{
	struct suggest near;
	struct err err = {};
	char text[256];

	err_set(&err, -ERR_USAGE, "unknown command '%s'", name);
	if (cmd_hint_habit(name, words, &err))
		return cmd_fail(g, &err);
	if (strpbrk(name, "/:")) {
		const char *pid = cmd_typed_pid(words), *time = cmd_typed_time(words);

		if (!strpbrk(name, ":*") && !strstr(name, ".so") && !access(name, X_OK))
			err_hint(&err, "run 'funcsnoop run %s'", name);
		else
			err_hint(&err, "run 'funcsnoop run \"%s%s\"%s%s%s%s'", name,
				strchr(name, ':') ? "" : ":*", pid ? " -p " : "", pid ? pid : "",
				time ? " -d " : "", time ? time : "");
		return cmd_fail(g, &err);
	}
	suggest_init(&near, name);
	for (size_t i = 0; commands[i]; i++)
		suggest_offer(&near, commands[i]->name, NULL);
	if (suggest_text(&near, text, sizeof(text)))
		return cmd_usage(g, "unknown command '%s'; %s?", name, text);
	return cmd_usage(g, "unknown command '%s'", name);
}

/* For completion: of @command its options, else those before a command and the commands. */
static int print_all_words(const struct command *command)
{
	help_words(command ? command->on : ON_FIRST);
	for (size_t i = 0; !command && commands[i]; i++)
		puts(commands[i]->name);
	return EXIT_DONE;
}

static int run_help(struct globals *g, int argc, char **argv)
{
	char *help_argv[] = { NULL, "--help", NULL };
	const struct command *command;

	if (argc > 1 && !strcmp(argv[1], "--words"))
		return print_all_words(argc > 2 ? find_command(argv[2]) : NULL);
	if (argc > 1 && argv[1][0] == '-')
		argc = 1;
	if (argc < 2) {
		print_usage(stdout);
		return EXIT_DONE;
	}
	command = find_command(argv[1]);
	if (!command) {
		g->command = NULL;
		return unknown_command(g, argv[1], NULL);
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
	_cleanup_options_ struct options o;

	cmd_parse(g, &cmd_version, argc, argv, &o);
	if (g->json)
		return json_version(g, FUNCSNOOP_VERSION, version_libbpf());
	printf("funcsnoop %s\nusing libbpf %s\n", FUNCSNOOP_VERSION, version_libbpf());
	return EXIT_DONE;
}

/* --- main ----------------------------------------------------------------------------------- */

/* A full disk or a closed pipe must not pass for success. A command that failed said why. */
static int check_stdout(const struct globals *g, int status)
{
	struct err err = {};

	if ((!fflush(stdout) && !ferror(stdout)) || status)
		return status;
	if (errno == EPIPE)
		return EXIT_FAILED;
	err_sys(&err, -errno, "cannot write output");
	cmd_show_error(g, &err);
	return EXIT_FAILED;
}

int main(int argc, char **argv)
{
	struct globals g = {};
	struct first_words first;
	const struct command *command;

	log_init(NULL);
	breaks_init(tell_breaks, &g);
	cmd_parse_first(&g, argc, argv, &first);
	if (first.help) {
		print_usage(stdout);
		return check_stdout(&g, EXIT_DONE);
	}
	if (first.version) {
		char *version_argv[] = { "version", NULL };

		g.command = "version";
		return check_stdout(&g, run_version(&g, 1, version_argv));
	}
	if (first.run) {
		g.command = "run";
		return check_stdout(&g, cmd_run.run(&g, argc, argv));
	}
	if (!first.command) {
		print_usage(stderr);
		return EXIT_USAGE;
	}
	command = find_command(argv[first.command]);
	if (!command)
		return unknown_command(&g, argv[first.command], argv + first.command + 1);
	g.command = command->name;
	return check_stdout(&g,
		command->run(&g, argc - first.command, argv + first.command));
}
