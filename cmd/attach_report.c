// SPDX-License-Identifier: BSD-2-Clause
// What funcsnoop attach says.
#include <string.h>
#include <unistd.h>

#include "cli/attach_options.h"
#include "show/functions.h"
#include "show/text.h"

void attach_show_progress(const char *what, size_t done, size_t total, void *arg)
{
	const struct globals *g = arg;

	if (g->quiet || total < 100 || !isatty(STDERR_FILENO))
		return;
	fprintf(stderr, "\r%s %zu of %zu probes%s", what, done, total,
		done == total ? "\n" : "");
}

void attach_note_left_out(const struct attach_options *o, const struct target *t)
{
	size_t refused = t->func_cnt - t->probed_cnt;
	const struct target_func *first = &t->funcs[t->probed_cnt];

	if (libfind_crowd(t->finder))
		cmd_note(o->g,
			"left out: %zu more mapped files of such names, as users map more than %d; "
			"--pid or a path takes them",
			libfind_crowd(t->finder), LIBFIND_OF_USER);
	if (t->missing_cnt)
		cmd_note(o->g, "not in the library: %zu of preset '%s', such as '%s'",
			t->missing_cnt, o->target.preset->name, t->missing[0]);
	if (refused == 1)
		cmd_note(o->g, "left out: '%s': %s", first->name, first->refused);
	else if (refused)
		cmd_note(o->g,
			"left out: %zu functions that can't be probed, '%s': %s, ...",
			refused, first->name, first->refused);
}

void attach_note_closed(const struct attach_options *o, const struct bpffs *fs)
{
	int len = strrchr(fs->path, '/') - fs->path;
	mode_t mode;

	if (access_is_blocked(fs, &o->attach.access, &mode))
		cmd_note(o->g,
			"'%.*s' lets nobody else pass (mode %04o): 'chmod o+x %.*s' does",
			len, fs->path, mode, len, fs->path);
}

/* "read (__read, __libc_read)" */
static const char *with_aliases(const struct target_func *f, char *buf, size_t size)
{
	const char *alias = target_func_alias(f, 0);
	size_t len = snprintf(buf, size, "%s", f->name);

	if (!alias)
		return f->name;
	for (size_t i = 0; len < size && (alias = target_func_alias(f, i)); i++)
		len += snprintf(buf + len, size - len, "%s%s", i ? ", " : " (", alias);
	if (len < size)
		snprintf(buf + len, size - len, ")");
	return buf;
}

/* Each file that was looked at: how it was found, and why it is not probed. */
static void print_libraries(const struct attach_options *o, const struct target *t)
{
	static const struct table_column columns[] = { { "LIBRARY", TABLE_LEFT, true },
		{ "FUNCTIONS", TABLE_RIGHT, false }, { "FOUND", TABLE_LEFT, false },
		{ "WHY NOT", TABLE_LEFT, true } };
	_cleanup_table_ struct table *table = table_new(columns, ARRAY_SIZE(columns));
	const struct lib_seen *seen;
	size_t cnt;

	for (size_t i = 0; i < t->looked_cnt; i++) {
		size_t funcs = target_lib_funcs(t, t->looked[i]);

		table_cell(table, "%s", t->looked[i]->path);
		table_cell(table, "%zu", funcs);
		table_cell(table, "%s", t->looked[i]->found_how);
		table_cell(table, "%s", funcs ? "" : "no function of it can be probed");
	}
	seen = libfind_seen(t->finder, &cnt);
	for (size_t i = 0; i < cnt; i++) {
		table_cell(table, "%s", seen[i].path);
		table_cell(table, "-");
		table_cell(table, "-");
		table_cell(table, "%s%s", seen[i].file ? "the same file as " : "",
			seen[i].file ? seen[i].file->path : seen[i].why);
	}
	table_print(table, o->g, stdout);
}

void attach_print_target(const struct attach_options *o, const struct target *t)
{
	_cleanup_table_ struct table *table = functions_table();

	for (size_t i = 0; i < t->func_cnt; i++) {
		struct group_func shown = target_func_shown(&t->funcs[i]);
		char name[512];

		shown.name = with_aliases(&t->funcs[i], name, sizeof(name));
		functions_add(table, &shown, t->funcs[i].refused);
	}
	for (size_t i = 0; i < t->missing_cnt; i++)
		functions_add_missing(table, t->missing[i]);
	if (!t->failure.code && libfind_denied(t->finder))
		cmd_note(o->g, "processes that may not be looked at: %zu",
			libfind_denied(t->finder));
	if (o->config)
		printf("%s:\n", t->name);
	table_print(table, o->g, stdout);
	putchar('\n');
	print_libraries(o, t);
	if (o->config)
		putchar('\n');
}

void attach_print_done(
	const struct target *t, const struct attach_report *report, size_t processes)
{
	char text[64];
	unsigned int exits = 0;

	for (size_t i = 0; i < t->probed_cnt; i++)
		exits |= 1U << target_func_shown(&t->funcs[i]).exit;
	printf("%s: %zu function%s of ", t->name, t->probed_cnt,
		t->probed_cnt == 1 ? "" : "s");
	for (size_t i = 0; i < t->lib_cnt && i < 3; i++) {
		_cleanup_free_ char *path = text_escape(t->libs[i]->path);

		printf("%s%s", i ? ", " : "", path ? path : "?");
	}
	if (t->lib_cnt > 3)
		printf(" and %zu more", t->lib_cnt - 3);
	printf(", mapped by %zu process%s; link %s, exits %s\n", processes,
		processes == 1 ? "" : "es", link_mode_name(report->links),
		text_exits(exits, text, sizeof(text)));
	if (t->timed_cnt < t->probed_cnt)
		printf("%s: %zu without times; 'funcsnoop list functions %s' says why\n",
			t->name, t->probed_cnt - t->timed_cnt, t->name);
}
