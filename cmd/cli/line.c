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

/* --- help ----------------------------------------------------------------------------------- */

#define HELP_COLUMN 27
#define HELP_WIDTH  80 /* unless COLUMNS says otherwise */

static size_t help_width(void)
{
	const char *columns = getenv("COLUMNS");
	int width = columns ? atoi(columns) : 0;

	return width >= HELP_WIDTH ? width : HELP_WIDTH;
}

/* Prints @text from @column on and wraps it. */
static void print_words(const char *text, size_t column)
{
	size_t at = column, width = help_width(), len;

	for (; *text; text += len + strspn(text + len, " ")) {
		len = strcspn(text, " ");
		if (at > column && at + 1 + len > width)
			at = printf("\n%*s", (int)column, "") - 1;
		else if (at > column)
			at += printf(" ");
		at += printf("%.*s", (int)len, text);
	}
	printf("\n");
}

static void print_help(const struct option_row *opt, size_t column)
{
	char text[VALUES_LEN + 80], buf[WORDS_LEN], values[VALUES_LEN] = "";
	const char *at = strstr(opt->help, "%s");

	if (at)
		values_text(option_values(opt, buf), values);
	snprintf(text, sizeof(text), "%.*s%s%s", at ? (int)(at - opt->help) : 0,
		opt->help, values, at ? at + 2 : opt->help);
	print_words(text, column);
}

static void print_option(const struct option_row *opt)
{
	char letter[8] = "";
	int at, column;

	if (opt->letter)
		snprintf(letter, sizeof(letter), "-%c, ", opt->letter);
	at = printf("%*s%s--%s%s%s ", opt->letter ? 2 : 6, "", letter, opt->name,
		opt->arg ? " " : "", opt->arg ? opt->arg : "");
	column = at > HELP_COLUMN ? at + 1 : HELP_COLUMN;
	printf("%*s", column - at, "");
	print_help(opt, column);
}

/* "Common options: -j|--json, --bpffs DIR", broken between options. */
void help_named(FILE *f, const char *head, unsigned int on, enum option_group group)
{
	size_t at = 0;
	char text[128];

	for (const struct option_row *opt = option_table; opt->on; opt++) {
		char letter[8] = "";

		if (!(opt->on & on) || opt->group != group || !opt->help)
			continue;
		if (opt->letter)
			snprintf(letter, sizeof(letter), "-%c|", opt->letter);
		snprintf(text, sizeof(text), "%s--%s%s%s", letter, opt->name,
			opt->arg ? " " : "", opt->arg ? opt->arg : "");
		if (!at)
			at = fprintf(f, "%s: ", head);
		else if (at + 2 + strlen(text) + 1 > help_width())
			at = fprintf(f, ",\n  ") - strlen(",\n");
		else
			at += fprintf(f, ", ");
		at += fprintf(f, "%s", text);
	}
	if (at)
		fprintf(f, "\n");
}

static const char *const heads[GROUP_CNT] = {
	[GROUP_PLAIN] = "Options:",
	[GROUP_TRACE] = "What to trace:",
	[GROUP_FILTER] =
		"Which calls to trace (all filters must match; most can be repeated):",
	[GROUP_RECORD] = "What to record:",
	[GROUP_KEEP] = "The group:",
	[GROUP_PRINT] = "What to print:",
	[GROUP_STREAM] = "Each call as it happens:",
};

static void help_print(const struct command *command)
{
	const char *usage = command->usage ? command->usage : "", *lead = "Usage:";
	const char *rest = strchr(command->text, '\v');

	do {
		size_t len = strcspn(usage, "\n");

		printf("%s funcsnoop %s [OPTION...]%s%.*s\n", lead, command->name,
			len ? " " : "", (int)len, usage);
		usage += len;
		lead = "  or: ";
	} while (*usage++);
	printf("%.*s\n\n", (int)(rest - command->text), command->text);
	for (int group = 0; group < GROUP_DEBUG; group++) {
		const char *head = heads[group];

		for (const struct option_row *opt = option_table; opt->on; opt++) {
			if (!(opt->on & command->on) || (int)opt->group != group ||
				!opt->help)
				continue;
			if (head)
				puts(head);
			head = NULL;
			print_option(opt);
		}
	}
	help_named(stdout, "For debugging funcsnoop", command->on, GROUP_DEBUG);
	help_named(stdout, "Common options", command->on, GROUP_COMMON);
	puts(rest + 1);
}

/* With blanks between; of parts their names, "a=", and none in capitals. */
static void print_values(const char *values, bool parts)
{
	for (size_t len; *values; values += len + (values[len] == '|')) {
		size_t shown = len = strcspn(values, "|");

		if (parts && memchr(values, '=', len))
			shown = strcspn(values, "=") + 1;
		if (!parts || *values < 'A' || *values > 'Z')
			printf("%.*s%s", (int)shown, values, values[len] ? " " : "");
	}
}

void help_words(unsigned int on)
{
	char buf[WORDS_LEN];

	for (const struct option_row *opt = option_table; opt->on; opt++) {
		const char *values = option_values(opt, buf);

		if (!(opt->on & on) || !opt->help)
			continue;
		printf("--%s %c %s %s ", opt->name, opt->letter ? opt->letter : '-',
			opt->arg ? opt->arg : "-", opt->completes ? opt->completes : "-");
		print_values(values ? values : "", opt->read == read_parts);
		putchar('\n');
	}
}

/* --- the table ------------------------------------------------------------------------------ */

static bool given[OPTIONS_MAX]; /* by index in the table */

static bool is_given(const char *name, size_t len)
{
	return ANY_WHERE(OPTIONS_MAX, i, given[i] && !strncmp(option_table[i].name, name, len) &&
		!option_table[i].name[len]);
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

/*
 * Checks @word, which begins with two dashes: the start of a name that is enough to choose it is as
 * good as the name. *@ret_takes_next is true if the next word is its value. Returns 0, or EXIT_USAGE
 * after a message.
 */
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

/* "-e openat" before a command, with the line that does the same. */
static int unknown_event(const struct globals *g, const char *value)
{
	if (!value || !*value || value[strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789_:")])
		return cmd_usage(g, "unknown option '-e'; did you mean 'run'?");
	return cmd_usage(g, "unknown option '-e'; did you mean 'funcsnoop run %s%s'?",
		strchr(value, ':') ? "" : "s:", value);
}

/*
 * Short options of perf, strace(1) and bpftrace that are none here. @words begin with it. @value: a word
 * that may be its value.
 */
static int unknown_short(const struct globals *g, unsigned int on, char letter, char *const *words,
	const char *value)
{
	char line[256];

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
		{ ON_FIRST | ON_LIST | ON_RUN, 'l', "did you mean 'funcsnoop list targets LIB'?" },
	};

	if (letter == 'e' && on & ON_FIRST)
		return unknown_event(g, value);
	if (letter == 'c' && on & ON_FIRST) {
		cmd_counts_line(words, line, sizeof(line));
		return cmd_usage(g, "unknown option '-c'; did you mean 'funcsnoop %s'?", line);
	}
	if (letter == 'c' && on & ON_RUN)
		return cmd_usage(g, "unknown option '-c'; a COMMAND comes last: '-- %s'",
			value && strcmp(value, "--") ? value : "COMMAND");
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i].letter == letter && known[i].on & on)
			return cmd_usage(g, "unknown option '-%c'; %s", letter, known[i].text);
	return cmd_usage(g, "unknown option '-%c'", letter);
}

/* As check_long(), of the letters of @words[0]. */
static int check_short(
	const struct globals *g, unsigned int on, char *const *words, bool *ret_takes_next)
{
	for (const char *c = words[0] + 1; *c; c++) {
		const struct option_row *opt = find_letter(on, *c);

		if (!opt)
			return unknown_short(g, on, *c, words, c[1] ? c + 1 : words[1]);
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
					: check_short(g, on, argv + i, &takes_next);
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
					   : check_short(&told, on, argv + i, &takes_next);
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
	for (size_t i = 0; i < o->stats.check_cnt; i++)
		free(o->stats.checks[i].noted);
	free(o->stats.checks);
	free(o->stats.by);
	free(o->stats.by_text);
	free(o->stream.pids.of);
	free(o->stream.funcs.of);
}
