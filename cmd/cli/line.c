// SPDX-License-Identifier: BSD-2-Clause
// The options of every command, and the line of one: global options, its own, its words.
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/err.h"
#include "base/util.h"
#include "cli/cmd.h"
#include "group/group.h"

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
		g->color = (enum color)choice_parse(state, after_options, key, arg);
		return 0;
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

/* --- before the command --------------------------------------------------------------------- */

struct first {
	struct globals *g;
	struct first_words *words;
};

static error_t parse_first(int key, char *arg, struct argp_state *state)
{
	struct first *first = state->input;

	switch (key) {
	case 'V':
		first->words->version = true;
		return 0;
	case 'h':
	case '?':
	case KEY_USAGE:
		first->words->help = true;
		state->next = state->argc;
		return 0;
	case ARGP_KEY_ARG:
		first->words->command = state->next - 1;
		state->next = state->argc;
		return 0;
	default:
		state->input = first->g;
		key = parse_global(key, arg, state);
		state->input = first;
		return key;
	}
}

void cmd_parse_first(struct globals *g, int argc, char **argv, struct first_words *ret_first)
{
	static const struct argp argp = { .options = before_options, .parser = parse_first };
	struct first first = { g, ret_first };

	*ret_first = (struct first_words) {};
	usage_parse(g, &argp, ARGP_IN_ORDER, argc, argv, &first);
}

/* --- numbers, seconds and choices ---------------------------------------------------------- */

#define SHARE_MAX_PERCENT 10000

uint32_t share_parse(struct argp_state *state, const char *option, const char *arg)
{
	size_t len = strspn(arg, "0123456789.");
	double percent = strtod(arg, NULL);

	if (!isdigit((unsigned char)*arg) || strcmp(arg + len, "%") != 0 ||
		strchr(arg, '.') != strrchr(arg, '.'))
		argp_error(state, "%s '%s': a share is wanted, such as 5%%", option, arg);
	else if (percent < 0.01 || percent > SHARE_MAX_PERCENT)
		argp_error(state, "%s '%s' is not from 0.01%% to %d%%", option, arg,
			SHARE_MAX_PERCENT);
	return percent * 10000 + 1e-6; /* what a decimal fraction lacks */
}

uint64_t number_parse(struct argp_state *state, const char *option, const char *arg,
	uint64_t min, uint64_t max)
{
	unsigned long long n;
	char *end;

	errno = 0;
	n = strtoull(arg, &end, 10);
	if (!isdigit((unsigned char)arg[0]) || *end || errno || n < min || n > max)
		argp_error(state, "%s '%s' is not a number from %llu to %llu", option, arg,
			(unsigned long long)min, (unsigned long long)max);
	return n;
}

uint64_t seconds_parse(struct argp_state *state, const char *option, const char *arg)
{
	char text[64];
	size_t len = strlen(arg);
	bool bare = len && (isdigit((unsigned char)arg[len - 1]) || arg[len - 1] == '.');
	uint64_t ns = 0;

	snprintf(text, sizeof(text), "%s%s", arg, bare ? "s" : "");
	if (len > 32 || duration_parse(text, &ns, NULL))
		argp_error(state, "%s '%s' is not a number of seconds", option, arg);
	else if (ns < 1000000 || ns > 1000000000000000ULL)
		argp_error(state, "%s '%s' is not between 1 ms and 11 days", option, arg);
	return ns;
}

uid_t user_parse(struct argp_state *state, const char *option, const char *arg)
{
	uid_t uid = (uid_t)-1;
	gid_t gid = (gid_t)-1;
	struct err err = {};

	if (strchr(arg, ':'))
		argp_error(state, "%s '%s' is no user", option, arg);
	else if (access_parse_owner(arg, &uid, &gid, &err))
		argp_error(state, "%s: %s", option, err.msg);
	return uid;
}

/* The value that stands at *@at of an option's text or behind it; NULL at the end. */
static const char *next_value(const char **at, size_t *ret_len)
{
	const char *value = *at + strspn(*at, "|, ");

	if (*value == '(') /* a remark on the one before */
		value += strcspn(value, ")") + 1 + strlen(", ");
	if (!strncmp(value, "or ", 3))
		value += 3;
	*ret_len = strcspn(value, "|, ");
	*at = value + *ret_len;
	return *ret_len ? value : NULL;
}

static void refuse_choice(
	struct argp_state *state, const char *name, const char *values, const char *arg)
{
	const char *value, *next;
	size_t len, next_len;
	char text[256];
	int at = 0;

	value = next_value(&values, &len);
	for (bool first = true; value; value = next, len = next_len, first = false) {
		next = next_value(&values, &next_len);
		at += snprintf(text + at, sizeof(text) - at, "%s%.*s",
			first          ? ""
				: next ? ", "
				       : " or ",
			(int)len, value);
	}
	argp_error(state, "--%s is %s, not '%s'", name, text, arg);
}

unsigned int choice_parse(struct argp_state *state, const struct argp_option *options,
	int key, const char *arg)
{
	const struct argp_option *o = options;
	const char *values, *at, *value;
	unsigned int choice = 0;
	size_t len;

	while (o->key != key)
		o++;
	values = strchr(o->arg, '|') ? o->arg : strstr(o->doc, ": ") + 1;
	for (at = values; (value = next_value(&at, &len)); choice++)
		if (strlen(arg) == len && !memcmp(arg, value, len))
			return choice;
	refuse_choice(state, o->name, values, arg);
	return 0;
}
