// SPDX-License-Identifier: BSD-2-Clause
// Parses a command line with argp, whose options are made from the table.
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text.h"
#include "base/util.h"
#include "cli/options.h"

/* --- the table ------------------------------------------------------------------------------ */

static bool given[OPTIONS_MAX]; /* by index in the table */

static bool is_given(const char *name, size_t len)
{
	for (size_t i = 0; i < OPTIONS_MAX; i++)
		if (given[i] && !strncmp(option_table[i].name, name, len) &&
			!option_table[i].name[len])
			return true;
	return false;
}

bool option_given(const char *names)
{
	for (size_t len; *names; names += len + (names[len] == '|')) {
		len = strcspn(names, "|");
		if (is_given(names, len))
			return true;
	}
	return false;
}

const struct option_row *option_find(unsigned int on, const char *name)
{
	const struct option_row *opt = option_table;

	while (!(opt->on & on) || !opt->name || strcmp(opt->name, name) != 0)
		opt++;
	return opt;
}

static const struct option_row *find_letter(unsigned int on, char letter)
{
	for (const struct option_row *opt = option_table; opt->on; opt++)
		if (opt->on & on && opt->letter == letter)
			return opt;
	return NULL;
}

int option_read(
	struct options *o, const struct option_row *opt, char *arg, struct err *err)
{
	void *of = opt->group == GROUP_COMMON ? (void *)o->g : o;

	given[opt - option_table] = true;
	return opt->read((char *)of + opt->at, opt, arg, err);
}

/* The key of @opt for argp. */
static int key_of(const struct option_row *opt)
{
	return opt->letter ? opt->letter : 0x100 + (int)(opt - option_table);
}

static void argp_options(unsigned int on, struct argp_option *ret_options)
{
	for (const struct option_row *opt = option_table; opt->on; opt++)
		if (opt->on & on && !option_part(opt))
			*ret_options++ = (struct argp_option) { .name = opt->name,
				.key = key_of(opt),
				.arg = opt->arg,
				.flags = opt->help ? 0 : OPTION_HIDDEN };
	*ret_options = (struct argp_option) {};
}

/* --- errors that getopt would report in its own words --------------------------------------- */

static int unknown_option(
	const struct globals *g, const char *text, const struct suggest *near)
{
	char names[256], dashed[256 + 2 * SUGGEST_MAX] = "";
	bool open = false;
	size_t len = 0;

	if (!suggest_text(near, names, sizeof(names)))
		return cmd_usage(g, "unknown option '--%s'", text);
	/* The names come without their dashes: "did you mean 'sort' or 'top'". */
	for (const char *c = names; *c; c++) {
		dashed[len++] = *c;
		if (*c == '\'' && (open = !open))
			len += sprintf(dashed + len, "--");
	}
	return cmd_usage(g, "unknown option '--%s'; %s?", text, dashed);
}

/* @word begins with two dashes. 0, or EXIT_USAGE after saying why. */
static int check_long(
	const struct globals *g, unsigned int on, const char *word, bool *ret_takes_next)
{
	size_t len = strcspn(word + 2, "="), cnt = 0;
	_cleanup_free_ char *name = xstrndup(word + 2, len);
	const struct option_row *found = NULL;
	struct suggest near;

	suggest_init(&near, name);
	for (const struct option_row *opt = option_table; opt->on; opt++) {
		if (!(opt->on & on) || !opt->name || option_part(opt))
			continue;
		if (opt->help)
			suggest_offer(&near, opt->name, NULL);
		if (strncmp(opt->name, name, len))
			continue;
		found = opt;
		cnt++;
		if (!opt->name[len]) {
			cnt = 1;
			break;
		}
	}
	if (cnt > 1)
		return cmd_usage(g, "option '--%s' is ambiguous", name);
	if (!cnt)
		return unknown_option(g, name, &near);
	if (word[2 + len] && !found->arg)
		return cmd_usage(g, "option '--%s' takes no value", found->name);
	*ret_takes_next = found->arg && !word[2 + len];
	return 0;
}

/* Short options of perf, strace(1) and bpftrace that are none here. */
static int unknown_short(const struct globals *g, unsigned int on, char letter)
{
	static const struct {
		unsigned int on;
		char letter;
		const char *text;
	} known[] = {
		{ ON_RUN | ON_ATTACH, 'e', "a system call is a FUNCTION such as 's:openat'" },
		{ ON_RUN | ON_ATTACH, 'F', "did you mean '--sample 99hz'?" },
		{ ON_RUN | ON_ATTACH, 'g', "did you mean '--by stack'?" },
		{ ON_RUN | ON_ATTACH, 'k', "did you mean '--by stack'?" },
		{ ON_LIST, 'p', "did you mean 'funcsnoop stack PID'?" },
		{ ON_FIRST, 'l', "did you mean 'list targets'?" },
		{ ON_FIRST, 'e', "did you mean 'run'?" },
		{ ON_FIRST, 'c', "did you mean 'run syscalls'?" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i].letter == letter && known[i].on & on)
			return cmd_usage(g, "unknown option '-%c'; %s", letter, known[i].text);
	return cmd_usage(g, "unknown option '-%c'", letter);
}

static int check_short(
	const struct globals *g, unsigned int on, const char *word, bool *ret_takes_next)
{
	for (const char *c = word + 1; *c; c++) {
		const struct option_row *opt = find_letter(on, *c);

		if (!opt)
			return unknown_short(g, on, *c);
		if (opt->arg) {
			*ret_takes_next = !c[1];
			return 0;
		}
	}
	return 0;
}

static int check_words(const struct globals *g, unsigned int on, int argc, char **argv)
{
	int status = 0;

	for (int i = 1; !status && i < argc && strcmp(argv[i], "--"); i++) {
		const char *word = argv[i];
		bool takes_next = false;

		if (word[0] != '-' || !word[1]) {
			if (on & ON_FIRST)
				break;
			continue;
		}
		status = word[1] == '-' ? check_long(g, on, word, &takes_next)
					: check_short(g, on, word, &takes_next);
		if (!status && takes_next && ++i == argc)
			status = cmd_usage(g, "option '%s' needs a value", word);
	}
	return status;
}

/* --- the line ------------------------------------------------------------------------------- */

struct line {
	const struct command *command; /* NULL: the line up to the command */
	unsigned int on;
	struct first_words *first;
	struct options *o;
	struct err err;
};

static int parse_help(
	struct line *line, const struct option_row *opt, struct argp_state *state)
{
	if (line->first && opt->name && !strcmp(opt->name, "version")) {
		line->first->version = true;
		return 0;
	}
	if (line->first && opt->letter == 'p') {
		line->first->run = true;
		state->next = state->argc;
		return 0;
	}
	if (line->first) {
		line->first->help = true;
		state->next = state->argc;
		return 0;
	}
	if (opt->name && !strcmp(opt->name, "usage"))
		argp_state_help(state, stdout, ARGP_HELP_USAGE | ARGP_HELP_EXIT_OK);
	help_print(line->command);
	exit(fflush(stdout) || ferror(stdout) ? EXIT_FAILED : EXIT_DONE);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct line *line = state->input;
	const struct option_row *opt;

	if (key == ARGP_KEY_ARG && line->first) {
		line->first->command = state->next - 1;
		state->next = state->argc;
		return 0;
	}
	if (key == ARGP_KEY_ARG && !line->command->usage) {
		err_set(&line->err, -ERR_USAGE, "takes no argument '%s'", arg);
		return EINVAL;
	}
	if (key == ARGP_KEY_ARGS) {
		line->o->words = (struct words) { state->argv + state->next,
			state->argc - state->next };
		return 0;
	}
	if (key <= 0 || key >= 0x100 + OPTIONS_MAX)
		return ARGP_ERR_UNKNOWN;
	opt = key < 0x100 ? find_letter(line->on, (char)key) : &option_table[key - 0x100];
	if (!opt)
		return ARGP_ERR_UNKNOWN;
	if (!opt->read)
		return parse_help(line, opt, state);
	return option_read(line->o, opt, arg, &line->err) ? EINVAL : 0;
}

static int check_rules(struct line *line)
{
	for (const struct option_rule *r = option_rules; r->on; r++) {
		if (!(r->on & line->on) || !option_given(r->these))
			continue;
		if (r->does == IMPLIES)
			option_read(line->o, option_find(line->on, r->those), NULL, &line->err);
		else if (option_given(r->those) == (r->does == EXCLUDES))
			return err_set(&line->err, -ERR_USAGE, "%s", r->message);
	}
	return 0;
}

/* Returns whether a line with an error asks for JSON. */
static bool asks_for_json(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "-j") || !strcmp(argv[i], "--json") ||
			!strcmp(argv[i], "--pretty"))
			return true;
	return false;
}

int cmd_first_word(const struct globals *g, unsigned int on, int argc, char **argv)
{
	struct globals told = *g;
	int status = 0, i = 1;

	told.json |= asks_for_json(argc, argv);
	for (bool takes_next = false; i < argc && strcmp(argv[i], "--"); i += 1 + takes_next) {
		takes_next = false;
		if (argv[i][0] != '-' || !argv[i][1])
			return i;
		status = argv[i][1] == '-' ? check_long(&told, on, argv[i], &takes_next)
					   : check_short(&told, on, argv[i], &takes_next);
		if (status)
			exit(status);
	}
	return 0;
}

static void parse_words(struct line *line, int argc, char **argv)
{
	const char *command = line->command ? line->command->name : "";
	struct argp_option options[OPTIONS_MAX + 1];
	struct argp argp = { .options = options,
		.parser = parse,
		.args_doc = line->command ? line->command->usage : NULL };
	struct globals told = *line->o->g;
	char name[64];
	int status;

	snprintf(name, sizeof(name), "funcsnoop%s%s", *command ? " " : "", command);
	argv[0] = name;
	told.json |= asks_for_json(argc, argv);
	status = check_words(&told, line->on, argc, argv);
	if (status)
		exit(status);
	argp_options(line->on, options);
	status = argp_parse(&argp, argc, argv,
		ARGP_NO_HELP | (line->first ? ARGP_IN_ORDER : 0), NULL, line);
	if (!status)
		status = check_rules(line);
	argv[0] = (char *)"";
	/* For readers; calls and intervals stay lines. */
	line->o->g->pretty |= line->o->g->json && !(line->on & (ON_RUN | ON_STREAM)) &&
		!option_given("output|interval") && isatty(STDOUT_FILENO);
	if (!status)
		return;
	if (line->err.code == -ENOMEM || status == ENOMEM) {
		fprintf(stderr, "%s: out of memory\n", name);
		exit(EXIT_FAILED);
	}
	status =
		cmd_usage(&told, "%s%s%s", line->err.code ? line->err.msg : "wrong usage",
			line->err.hint[0] ? "; " : "", line->err.hint);
	fflush(stdout);
	exit(status);
}

void cmd_parse(struct globals *g, const struct command *command, int argc, char **argv,
	struct options *ret_options)
{
	struct line line = { .command = command, .on = command->on, .o = ret_options };

	*ret_options = (struct options) {
		.g = g,
		.attach = { .g = g,
			.ender_fd = -1,
			.guard_fd = -1,
			.attach = { .processes = true,
				.nesting = true,
				.access = ACCESS_PRIVATE } },
		.stats = { .g = g,
			.view = view_find("function"),
			.choice = { .sort = FIGURE_TOTAL,
				.bucket_cnt = METRIC_BUCKETS } },
		.stream = { .g = g,
			.calls = true,
			.buffer_bytes = STREAM_BUFFER_DEFAULT },
	};
	parse_words(&line, argc, argv);
}

void cmd_parse_first(
	struct globals *g, int argc, char **argv, struct first_words *ret_first)
{
	struct options none = { .g = g };
	struct line line = { .on = ON_FIRST, .o = &none, .first = ret_first };

	*ret_first = (struct first_words) {};
	parse_words(&line, argc, argv);
}

void options_done(struct options *o)
{
	attach_options_done(&o->attach);
	saved_free(o->stats.before);
	free(o->stats.checks);
	free(o->stats.by);
	free(o->stream.pids.of);
	free(o->stream.funcs.of);
}
