// SPDX-License-Identifier: BSD-2-Clause
// Prints the table of options: help for users, rows for completion.
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "cli/options.h"

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

void help_print(const struct command *command)
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
