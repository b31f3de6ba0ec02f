// SPDX-License-Identifier: BSD-2-Clause
// Wrong usage in the words of this program, for people and for readers of JSON.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/util.h"
#include "cli/cmd.h"

/* --- what argp says ------------------------------------------------------------------------- */

/* argp leaves the process where it finds wrong usage: what it said is told on the way out. */
static struct {
	struct globals *g; /* NULL while nothing is parsed */
	FILE *stream;
	char *text;
	size_t len;
} told;

static void tell(int status, void *arg)
{
	struct globals *g = told.g;
	char *message, *end;

	told.g = NULL;
	if (!g || !told.stream)
		return;
	fclose(told.stream);
	/* A failure in reading the line: argp_failure(3). */
	if (status != EXIT_USAGE && told.text)
		fputs(told.text, stderr);
	if (status != EXIT_USAGE || !told.text)
		return;
	/* "funcsnoop COMMAND: MESSAGE\nTry `...": argp_error(3). */
	message = strstr(told.text, ": ");
	if (message) {
		message += 2;
		end = strstr(message, "\nTry `");
		if (end)
			*end = '\0';
		message[strcspn(message, "\n")] = '\0';
	}
	cmd_usage(g, "%s", message && *message ? message : "wrong usage");
	fflush(stdout);
}

void usage_capture(struct argp_state *state)
{
	if (told.stream)
		state->err_stream = told.stream;
}

/* --- options that are not there -------------------------------------------------------------- */

static const struct argp_option *each_option(const struct argp *argp,
	bool (*fn)(const struct argp_option *o, void *arg), void *arg)
{
	const struct argp_option *found = NULL;

	for (const struct argp_option *o = argp->options; o && (o->name || o->key); o++)
		if (fn(o, arg))
			return o;
	for (const struct argp_child *c = argp->children; !found && c && c->argp; c++)
		found = each_option(c->argp, fn, arg);
	return found;
}

struct wanted {
	const char *name;
	size_t len;
	const struct argp_option *first;
	size_t cnt; /* how many begin like this */
	struct suggest near;
};

static bool match_long(const struct argp_option *o, void *arg)
{
	struct wanted *w = arg;

	if (!o->name)
		return false;
	suggest_offer(&w->near, o->name, NULL);
	if (strncmp(o->name, w->name, w->len))
		return false;
	w->first = o;
	w->cnt++;
	return strlen(o->name) == w->len;
}

static bool match_short(const struct argp_option *o, void *arg)
{
	return o->key == *(const char *)arg;
}

static int unknown_option(const struct globals *g, const char *text, struct wanted *w)
{
	char near[256], dashed[256 + 2 * SUGGEST_MAX] = "";
	bool open = false;
	size_t len = 0;

	if (!suggest_text(&w->near, near, sizeof(near)))
		return cmd_usage(g, "unknown option '--%s'", text);
	/* The names come without their dashes: "did you mean 'sort' or 'top'". */
	for (const char *c = near; *c; c++) {
		dashed[len++] = *c;
		if (*c == '\'' && (open = !open))
			len += sprintf(dashed + len, "--");
	}
	return cmd_usage(g, "unknown option '--%s'; %s?", text, dashed);
}

/* @word begins with two dashes. 0, or EXIT_USAGE after saying why. */
static int check_long(const struct globals *g, const struct argp *argp, const char *word,
	bool *ret_takes_next)
{
	struct wanted w = { .name = word + 2, .len = strcspn(word + 2, "=") };
	_cleanup_free_ char *name = strndup(w.name, w.len);
	const struct argp_option *o;
	bool value = word[2 + w.len];

	suggest_init(&w.near, name ? name : "");
	o = each_option(argp, match_long, &w);
	if (!o && w.cnt > 1)
		return cmd_usage(g, "option '--%s' is ambiguous", name);
	if (!o && !w.cnt)
		return unknown_option(g, name, &w);
	o = o ? o : w.first;
	if (value && !o->arg)
		return cmd_usage(g, "option '--%s' takes no value", o->name);
	*ret_takes_next = o->arg && !value;
	return 0;
}

/* Short options of perf, strace(1) and bpftrace that are none here. */
static int unknown_short(const struct globals *g, char key)
{
	static const struct {
		bool probes; /* of run and attach; else without a command */
		char key;
		const char *text;
	} known[] = {
		{ true, 'e', "a system call is a FUNCTION such as 's:openat'" },
		{ true, 'F', "did you mean '--rate'?" },
		{ true, 'g', "did you mean '--stacks all'?" },
		{ true, 'k', "did you mean '--stacks all'?" },
		{ false, 'l', "did you mean 'list targets'?" },
		{ false, 'e', "did you mean 'run'?" },
		{ false, 'c', "did you mean 'run syscalls'?" },
	};
	bool probes = g->command && (!strcmp(g->command, "run") || !strcmp(g->command, "attach"));

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i].key == key && known[i].probes == probes && (probes || !g->command))
			return cmd_usage(g, "unknown option '-%c'; %s", key, known[i].text);
	return cmd_usage(g, "unknown option '-%c'", key);
}

static int check_short(const struct globals *g, const struct argp *argp, const char *word,
	bool *ret_takes_next)
{
	for (const char *c = word + 1; *c; c++) {
		const struct argp_option *o = each_option(argp, match_short, (void *)c);

		if (!o)
			return unknown_short(g, *c);
		if (o->arg) {
			*ret_takes_next = !c[1];
			return 0;
		}
	}
	return 0;
}

/* What getopt would find, which prints in words of its own. */
static int check_options(const struct globals *g, const struct argp *argp,
	unsigned int flags, int argc, char **argv)
{
	int status = 0;

	for (int i = 1; !status && i < argc && strcmp(argv[i], "--"); i++) {
		const char *word = argv[i];
		bool takes_next = false;

		if (word[0] != '-' || !word[1]) {
			if (flags & ARGP_IN_ORDER)
				break;
			continue;
		}
		status = word[1] == '-' ? check_long(g, argp, word, &takes_next)
					: check_short(g, argp, word, &takes_next);
		if (!status && takes_next && ++i == argc)
			status = cmd_usage(g, "option '%s' needs a value", word);
	}
	return status;
}

/* Whether JSON is wanted by whoever wrote this line, wrong as it is. */
static bool asks_for_json(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "-j") || !strcmp(argv[i], "--json") ||
			!strcmp(argv[i], "--pretty"))
			return true;
	return false;
}

void usage_parse(struct globals *g, const struct argp *argp, unsigned int flags, int argc,
	char **argv, void *input)
{
	struct globals told_g = *g;
	char name[64];
	int status;

	snprintf(name, sizeof(name), "funcsnoop%s%s", g->command ? " " : "",
		g->command ? g->command : "");
	argv[0] = name;
	told_g.json |= asks_for_json(argc, argv);
	status = check_options(&told_g, argp, flags, argc, argv);
	if (status)
		exit(status);
	told.g = &told_g;
	told.stream = open_memstream(&told.text, &told.len);
	on_exit(tell, NULL);
	status = argp_parse(argp, argc, argv, flags | ARGP_NO_HELP, NULL, input);
	if (status == ENOMEM) {
		told.g = NULL;
		fprintf(stderr, "%s: out of memory\n", name);
		exit(EXIT_FAILED);
	}
	if (status)
		exit(EXIT_USAGE);
	told.g = NULL;
	if (told.stream)
		fclose(told.stream);
	told.stream = NULL;
	free(told.text);
	told.text = NULL;
	argv[0] = "";
}

/* --- help ------------------------------------------------------------------------------------ */

#define HELP_COLUMN 29
#define HELP_WIDTH  79 /* unless COLUMNS says otherwise */

static size_t help_width(void)
{
	const char *columns = getenv("COLUMNS");
	int width = columns ? atoi(columns) - 1 : 0;

	return width >= HELP_WIDTH ? width : HELP_WIDTH;
}

/* Words of @text from @column on, and on further lines below. */
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

/* "-l, --lib=LIB", or "-l|--lib=LIB" among others. */
static void option_text(char *buf, size_t size, const struct argp_option *o, bool among)
{
	char key[8] = "";

	if (o->key > ' ' && o->key < 0x7f)
		snprintf(key, sizeof(key), among ? "-%c|" : "-%c, ", o->key);
	else if (!among)
		snprintf(key, sizeof(key), "    ");
	snprintf(buf, size, "%s--%s%s%s", key, o->name, o->arg ? "=" : "",
		o->arg ? o->arg : "");
}

static void print_options(const struct argp_option *options)
{
	char text[128];

	for (const struct argp_option *o = options; o && (o->name || o->key); o++) {
		if (o->flags & OPTION_HIDDEN || o->group >= USAGE_MORE)
			continue;
		option_text(text, sizeof(text), o, false);
		printf("  %-*s ", HELP_COLUMN - 3, text);
		print_words(o->doc, HELP_COLUMN);
	}
}

/* "Also: -r|--regex, --name=NAME, ...", broken between options. */
static void print_more(const char *head, const struct argp_option *options)
{
	size_t at = 0;
	char text[128];

	for (const struct argp_option *o = options; o && (o->name || o->key); o++) {
		if (o->flags & OPTION_HIDDEN || o->group < USAGE_MORE)
			continue;
		option_text(text, sizeof(text), o, true);
		if (!at)
			at = printf("%s: ", head);
		else if (at + 2 + strlen(text) + 1 > help_width())
			at = printf(",\n  ") - strlen(",\n");
		else
			at += printf(", ");
		at += printf("%s", text);
	}
	if (at)
		printf("\n");
}

void usage_help(const struct argp *line, const char *command)
{
	const struct argp *argp = line->children[USAGE_OWN].argp;
	const char *args = argp->args_doc ? argp->args_doc : "", *text = argp->doc;
	const char *rest = text ? strchr(text, '\v') : NULL;
	const char *lead = "Usage:";

	do {
		size_t len = strcspn(args, "\n");

		printf("%s funcsnoop %s [OPTION...]%s%.*s\n", lead, command,
			len ? " " : "", (int)len, args);
		args += len;
		lead = "  or: ";
	} while (*args++);
	if (text)
		printf("%.*s\n", rest ? (int)(rest - text) : (int)strlen(text), text);
	printf("\n");
	print_options(argp->options);
	print_more("Also", argp->options);
	print_more("Everywhere", line->children[USAGE_EVERYWHERE].argp->options);
	if (rest)
		printf("%s\n", rest + 1);
	exit(fflush(stdout) || ferror(stdout) ? EXIT_FAILED : EXIT_DONE);
}
