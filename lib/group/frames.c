// SPDX-License-Identifier: BSD-2-Clause
// What frames are called: by symbols of their files and lines of their source, and those of Python by
// the copies of code that walks have made.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf/dwarf.h"
#include "group/records.h"
#include "group/stacks.h"
#include "unwind/python.h"

/* The function that covers it, as its source has it. */
static char *symbol_of(struct elf_file *elf, uint64_t offset)
{
	const struct elf_func *func = NULL;
	const char *name;
	uint64_t addr;
	char *shown;

	if (!elf_file_offset_to_addr(elf, offset, &addr))
		func = elf_file_func_at(elf, addr);
	if (!func)
		return NULL;
	name = func->names[0].name;
	shown = demangle_is_mangled(name) ? demangle(name, DEMANGLE_NAME) : NULL;
	return shown ? shown : xstrdup(name);
}

void frame_names_free(struct frame_name *names, size_t cnt)
{
	for (size_t i = 0; names && i < cnt; i++) {
		if (names[i].text != names[i].name)
			free(names[i].text);
		free(names[i].source);
		free(names[i].name);
	}
	free(names);
}

static char *function_name(struct elf_file *elf, const char *path, uint64_t offset)
{
	char *name = elf ? symbol_of(elf, offset) : NULL;
	const char *base;

	if (name)
		return name;
	base = path ? strrchr(path, '/') : NULL;
	base = base ? base + 1 : path;
	return xasprintf(base ? "%s+0x%llx" : "%s0x%llx", base ? base : "",
		(unsigned long long)offset);
}

/* "get (heap.c:99)": .name is there. */
static char *name_text(struct frame_name *n)
{
	const char *base = n->source ? strrchr(n->source, '/') : NULL, *mark = n->inlined ? "_[i]" : "";

	if (!n->line && !n->inlined)
		return n->name;
	return n->line ? xasprintf("%s (%s:%u)%s", n->name, base ? base + 1 : n->source, n->line, mark)
		       : xasprintf("%s%s", n->name, mark);
}

static char *source_of(const struct elf_line *line)
{
	if (!line->source || !line->folder)
		return line->source ? xstrdup(line->source) : NULL;
	return xasprintf("%s/%s", line->folder, line->source);
}

struct frame_name *frame_name_new(char *name, size_t *ret_cnt)
{
	struct frame_name *names = xcalloc(1, sizeof(*names));

	names->name = names->text = name;
	*ret_cnt = 1;
	return names;
}

struct frame_name *frame_names(
	struct elf_file *elf, const char *path, uint64_t offset, bool lines, size_t *ret_cnt)
{
	struct elf_line line[ELF_LINES_MAX];
	struct frame_name *names;
	size_t cnt = 0;
	uint64_t addr;

	if (lines && elf && !elf_file_offset_to_addr(elf, offset, &addr))
		cnt = elf_lines_at(elf, addr, line);
	if (!cnt)
		return frame_name_new(function_name(elf, path, offset), ret_cnt);
	names = xcalloc(cnt, sizeof(*names));
	for (size_t i = 0; i < cnt; i++) {
		struct frame_name *n = &names[i];

		n->inlined = line[i].inlined;
		n->source = source_of(&line[i]);
		n->line = n->source ? line[i].line : 0;
		n->name = line[i].function ? xstrdup(line[i].function)
					   : function_name(elf, path, offset);
		n->text = name_text(n);
	}
	*ret_cnt = cnt;
	return names;
}

/* --- of Python --------------------------------------------------------------------------------- */

/* The line at instruction @at, by the table that was copied; 0: it is not known. */
static unsigned int line_of(
	const struct group *g, const struct fsn_python_code *code, uint32_t at)
{
	const size_t pieces = (code->lines + FSN_PYTHON_PIECE - 1) / FSN_PYTHON_PIECE;
	_cleanup_free_ struct fsn_python_lines *lines = xcalloc(pieces + 1, sizeof(*lines));

	if (code->lines > FSN_PYTHON_LINES || code->first_piece > FSN_PYTHON_PIECES - pieces ||
		map_read(group_fd(g, MAPID_PYTHON_LINES), code->first_piece, pieces, sizeof(*lines), lines))
		return 0;
	return python_line(code->minor, lines->bytes, code->lines, code->first_line,
		at == FSN_PYTHON_AT_NONE ? UINT64_MAX : 2ULL * at);
}

/* Of copy @number, from 1 on; false where there is none, or it is not whole. */
static bool name_read(const struct group *g, uint32_t number, uint32_t at, struct frame_name *to)
{
	struct fsn_python_code code;

	if (!number || number > FSN_PYTHON_CODES ||
		map_read(group_fd(g, MAPID_PYTHON_CODES), number - 1, 1, sizeof(code), &code) ||
		!code.ready)
		return false;
	to->name = python_text_cut(code.name, sizeof(code.name), code.name_len,
		code.name_kind, false);
	to->source = python_text_cut(code.file, sizeof(code.file), code.file_len,
		code.file_kind, true);
	to->line = line_of(g, &code, at);
	return to->name && to->source;
}

struct frame_name *python_names(const struct group *g, uint64_t frame, size_t *ret_cnt)
{
	const uint32_t number = (frame & FSN_FRAME_OFFSET) >> FSN_PYTHON_CODE_SHIFT;
	struct frame_name *n = xcalloc(1, sizeof(*n));

	n->is_python = true;
	if (!name_read(g, number, frame & FSN_PYTHON_AT_NONE, n)) {
		free(n->name);
		n->name = xstrdup("[unknown Python]");
	}
	n->text = name_text(n);
	*ret_cnt = 1;
	return n;
}
