// SPDX-License-Identifier: BSD-2-Clause
// Reads stacks and the names of their frames.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <bpf/bpf.h>

#include "base/file.h"
#include "base/util.h"
#include "elf/dwarf.h"
#include "elf/elf_file.h"
#include "find/find.h"
#include "group/records.h"
#include "group/stacks.h"
#include "kernel/trace.h"
#include "proc/proc.h"
#include "unwind/python.h"

/*
 * What code is called that a process has made itself: /tmp/perf-PID.map, which JIT compilers
 * write for perf(1), a line for each piece, "START SIZE NAME" with numbers in hex.
 */

/* Limits for all maps together, because traced processes write them. */
#define BYTES_MAX  (256U << 20)
#define LINES_MAX  (2U << 20)
#define NAME_LEN   1024

struct piece {
	uint64_t start, end;
	size_t nth; /* line number; a later line replaces earlier ones */
	char *name;
};

struct perf_map {
	pid_t pid;
	struct perf_map *next;
	char *text;
	size_t len, lines;
	struct piece *pieces; /* sorted, and none overlaps another one */
	size_t cnt;
};

void perf_maps_free(struct perf_map *m)
{
	while (m) {
		struct perf_map *next = m->next;

		free(m->text);
		free(m->pieces);
		free(m);
		m = next;
	}
}

/*
 * Any user can make a file of that name. Like perf(1), this accepts only files of the process's
 * user or of root. Those of root must be readable by that user, because in a mount namespace of
 * their own users can mount any file there. After the process has ended its user is unknown.
 */
static bool is_its_own(int fd, pid_t pid)
{
	struct stat file;
	uid_t user;

	if (fstat(fd, &file))
		return false;
	return proc_user("/proc", pid, &user) || file.st_uid == user ||
		(!file.st_uid && file.st_mode & S_IROTH);
}

/* O_NOFOLLOW: any user can make a link to a file of the process's user. */
static int open_map(pid_t pid)
{
	_cleanup_close_ int root = proc_open_root("/proc", pid, NULL), fd = -1;
	char path[64];

	if (root < 0)
		root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", proc_own_number("/proc", pid, pid));
	fd = root < 0 ? -1 : proc_open_in_root(root, path, O_NOFOLLOW, NULL);
	return fd >= 0 && is_its_own(fd, pid) ? TAKE_FD(fd) : -1;
}

/* --- its lines ------------------------------------------------------------------------------ */

static void add_piece(struct perf_map *m, char *line)
{
	struct piece piece = { .nth = m->cnt };
	uint64_t size;
	char *at;

	piece.start = strtoull(line, &at, 16);
	if (at == line || *at != ' ')
		return;
	line = at + 1;
	size = strtoull(line, &at, 16);
	if (at == line || *at != ' ' || !at[1] || !size)
		return;
	piece.end = size > UINT64_MAX - piece.start ? UINT64_MAX : piece.start + size;
	piece.name = at + 1;
	piece.name[strnlen(piece.name, NAME_LEN)] = '\0';
	*array_add(m->pieces, m->cnt) = piece;
}

DEFINE_ORDER(compare_pieces, struct piece, RISING(start))

/* --- pieces that overlap -------------------------------------------------------------------- */

/* Heap of pieces that contain the current address; the one with the last line is on top. */
struct begun {
	const struct piece **at;
	size_t cnt;
};

static void begun_add(struct begun *b, const struct piece *piece)
{
	size_t i = b->cnt++;

	for (; i && b->at[(i - 1) / 2]->nth < piece->nth; i = (i - 1) / 2)
		b->at[i] = b->at[(i - 1) / 2];
	b->at[i] = piece;
}

static void begun_drop(struct begun *b)
{
	const struct piece *last = b->at[--b->cnt];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < b->cnt) {
		if (child + 1 < b->cnt && b->at[child + 1]->nth > b->at[child]->nth)
			child++;
		if (b->at[child]->nth < last->nth)
			break;
		b->at[i] = b->at[child];
		i = child;
	}
	b->at[i] = last;
}

/*
 * Splits sorted @pieces into @parts that do not overlap: each address belongs to the piece with the
 * last line. A part begins where a piece begins or ends, so that @parts needs room for 2 * @cnt.
 */
static size_t part(const struct piece *pieces, size_t cnt, struct begun *begun, struct piece *parts)
{
	size_t next = 0, part_cnt = 0;
	uint64_t at = 0;

	for (;;) {
		for (; next < cnt && pieces[next].start <= at; next++)
			begun_add(begun, &pieces[next]);
		while (begun->cnt && begun->at[0]->end <= at)
			begun_drop(begun);
		if (!begun->cnt && next == cnt)
			return part_cnt;
		if (!begun->cnt) {
			at = pieces[next].start;
			continue;
		}
		parts[part_cnt] = *begun->at[0];
		parts[part_cnt].start = at;
		if (next < cnt && pieces[next].start < parts[part_cnt].end)
			parts[part_cnt].end = pieces[next].start;
		at = parts[part_cnt++].end;
	}
}

static void part_pieces(struct perf_map *m)
{
	struct begun begun = { .at = xreallocarray(NULL, m->cnt, sizeof(*begun.at)) };
	struct piece *parts = xreallocarray(NULL, 2 * m->cnt, sizeof(*parts));

	qsort(m->pieces, m->cnt, sizeof(*m->pieces), compare_pieces);
	m->cnt = part(m->pieces, m->cnt, &begun, parts);
	free(begun.at);
	free(m->pieces);
	m->pieces = xreallocarray(parts, m->cnt, sizeof(*parts));
}

/* Reads the file, unless the maps before it have reached the limits. */
static void read_pieces(struct perf_map *m)
{
	size_t bytes = BYTES_MAX, lines = LINES_MAX;
	_cleanup_close_ int fd = open_map(m->pid);
	char *rest, *line;
	struct stat st;

	for (const struct perf_map *other = m->next; other; other = other->next) {
		bytes -= other->len;
		lines -= other->lines;
	}
	if (fd < 0 || fstat(fd, &st) || (uint64_t)st.st_size > bytes ||
		file_read(fd, bytes, &m->text, &m->len))
		return;
	rest = m->text;
	while (m->cnt < lines && (line = strsep(&rest, "\n")))
		add_piece(m, line);
	m->lines = m->cnt;
	if (m->cnt)
		part_pieces(m);
}

const char *perf_map_name(struct perf_map **maps, pid_t pid, uint64_t addr)
{
	struct perf_map *m;
	size_t next;

	for (m = *maps; m && m->pid != pid; m = m->next)
		;
	if (!m) {
		m = xcalloc(1, sizeof(*m));
		*m = (struct perf_map) { .pid = pid, .next = *maps };
		*maps = m;
		read_pieces(m);
	}
	next = FIRST_WHERE(m->cnt, i, m->pieces[i].start > addr);
	return next && addr < m->pieces[next - 1].end ? m->pieces[next - 1].name : NULL;
}

/* --- names of frames: from symbols, source lines, and recorded Python code ------------------ */

/* Returns the demangled name of the function at @offset, or NULL. */
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

/* Returns "get (heap.c:99)" for .name "get". */
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

/* Returns a list of one frame. Takes ownership of @name. Free with frame_names_free(). */
static struct frame_name *frame_name_new(char *name, size_t *ret_cnt)
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

/* --- of Python ------------------------------------------------------------------------------ */

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

/* Reads copy @number, counted from 1. Returns false if it does not exist or is incomplete. */
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

/*
 * Returns the name of a Python frame in @g, with the source and line of its code; line 0 if it is
 * not known. The caller frees it with frame_names_free().
 */
static struct frame_name *python_names(const struct group *g, uint64_t frame, size_t *ret_cnt)
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

/* Stacks as the BPF programs record them, and names of their frames from the mapped files. */

struct named {
	uint64_t frame;
	struct frame_name *names; /* NULL: unused entry */
	size_t cnt;
};

/* A file with frames; it is opened when its first frame is named. */
struct frame_file {
	struct fsn_stack_file about;
	struct elf_file *elf;
	bool tried;
	pid_t tried_by; /* for this process, or 0 */
};

/* A file at which walks stopped, identified by their last frame without the offset. */
struct met {
	uint64_t frame;
	uint32_t number; /* 0: no unwind table, or a hash collision */
};

/* The name of such a file, which may be gone. */
struct met_name {
	uint64_t frame;
	char name[FSN_NAME_PART]; /* "?": two files have the same hash */
};

#define KERNEL_FILE 0xffff /* upper bits of kernel addresses */

struct symbol {
	uint64_t addr;
	char *name;
};

struct stacks {
	const struct group *g;
	struct fsn_stack *stacks;
	struct fsn_frames *frames;
	uint32_t cnt, frames_cnt;
	struct frame_file *files; /* FSN_FILES_MAX */
	struct met *met;
	size_t met_cnt;
	bool met_read;
	struct met_name *met_names;
	size_t met_name_cnt;
	bool met_names_read;
	struct named *names;      /* by hash; a power of two of them */
	size_t names_cnt, names_used;
	struct perf_map *maps; /* of processes that make code */
	pid_t nameless;        /* one that has no name for some of its own */
	bool optimized;        /* stacks_optimized() */
	struct symbol *symbols; /* of the kernel, by address */
	size_t symbol_cnt;
	struct frame_name made; /* last returned name from .maps */
	pid_t *others; /* a process of each other mount namespace; NULL: not read */
	size_t other_cnt;
	bool lines;
	bool symbols_read, loaded_read; /* of the kernel; of modules and BPF programs */
	uint64_t text, text_end; /* of the kernel itself */
};

void stacks_free(struct stacks *s)
{
	if (!s)
		return;
	for (size_t i = 0; s->files && i < FSN_FILES_MAX; i++)
		elf_file_free(s->files[i].elf);
	for (size_t i = 0; i < s->names_cnt; i++)
		frame_names_free(s->names[i].names, s->names[i].cnt);
	perf_maps_free(s->maps);
	for (size_t i = 0; i < s->symbol_cnt; i++)
		free(s->symbols[i].name);
	free(s->others);
	free(s->symbols);
	free(s->names);
	free(s->met);
	free(s->met_names);
	free(s->files);
	free(s->stacks);
	free(s->frames);
	free(s);
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Reads all records of files, indexed by number. Returns NULL if they cannot be read. */
static struct fsn_stack_file *read_records(const struct group *g)
{
	_cleanup_free_ struct fsn_stack_file *files = xcalloc(FSN_FILES_MAX, sizeof(*files));

	if (map_read_fixed(group_fd(g, MAPID_STACK_FILES), 0, FSN_FILES_MAX, sizeof(*files),
			      files))
		return NULL;
	return TAKE_PTR(files);
}

uint64_t stacks_memory(const struct group *g)
{
	_cleanup_free_ struct fsn_stack_file *files = NULL;
	uint64_t bytes = 0;

	if (!g->meta.stack_cnt || group_fd(g, MAPID_STACK_FILES) < 0)
		return 0;
	files = read_records(g);
	for (size_t i = 0; files && i < FSN_FILES_MAX; i++)
		bytes += files[i].rows * sizeof(struct fsn_unwind_row);
	return bytes;
}

static int read_files(const struct group *g, struct stacks *s)
{
	_cleanup_free_ struct fsn_stack_file *files = read_records(g);

	s->files = xcalloc(FSN_FILES_MAX, sizeof(*s->files));
	if (!files)
		return -ENOMEM;
	for (size_t i = 0; i < FSN_FILES_MAX; i++) {
		s->files[i].about = files[i];
		s->files[i].about.path[sizeof(files[i].path) - 1] = '\0';
	}
	return 0;
}

int stacks_read(const struct group *g, struct stacks **ret_stacks, struct err *err)
{
	_cleanup_stacks_ struct stacks *s = NULL;
	int fd, code;

	*ret_stacks = NULL;
	if (!g->meta.stack_cnt)
		return 0;
	fd = group_map_fd(g, MAPID_STACKS, "stacks", err);
	if (fd < 0)
		return fd;
	if (g->meta.stack_cnt > FSN_ROWS_MAX)
		return err_sys(err, -EPROTO, "cannot read stacks of group '%s'", g->name);
	s = xcalloc(1, sizeof(*s));
	s->g = g;
	s->cnt = g->meta.stack_cnt;
	s->frames_cnt = s->cnt * FSN_STACK_PIECES;
	s->stacks = xcalloc(s->cnt, sizeof(*s->stacks));
	s->frames = xcalloc(s->frames_cnt, sizeof(*s->frames));
	code = map_read(fd, 0, s->cnt, sizeof(*s->stacks), s->stacks);
	if (!code)
		code = map_read(group_fd(g, MAPID_FRAMES), 0, s->frames_cnt, sizeof(*s->frames),
			s->frames);
	if (!code)
		code = read_files(g, s);
	if (code)
		return err_sys(err, code, "cannot read stacks of group '%s'", g->name);
	*ret_stacks = TAKE_PTR(s);
	return 0;
}

/* Reads a stack that was added or completed after stacks_read(). */
static void read_again(const struct stacks *s, uint32_t i)
{
	struct fsn_stack *stack = &s->stacks[i];
	size_t pieces;

	if (map_read(group_fd(s->g, MAPID_STACKS), i, 1, sizeof(*stack), stack))
		return;
	pieces = (stack->cnt + FSN_FRAMES_PIECE - 1) / FSN_FRAMES_PIECE;
	if (!pieces || pieces > FSN_FRAMES_MAX || stack->first > s->frames_cnt - pieces ||
		map_read(group_fd(s->g, MAPID_FRAMES), stack->first, pieces, sizeof(*s->frames),
			&s->frames[stack->first]))
		stack->cnt = 0;
}

struct stack stacks_get(const struct stacks *s, uint64_t number)
{
	const struct fsn_stack *stack;
	size_t pieces;

	if (!number || number > s->cnt)
		return (struct stack) {};
	stack = &s->stacks[number - 1];
	if (!stack->cnt || (stack->end == FSN_WALK_NO_PAGE && !stack->instead))
		read_again(s, number - 1);
	/* A stack that replaces one is never replaced itself. */
	if (stack->instead && stack->instead <= s->cnt && !s->stacks[stack->instead - 1].instead)
		return stacks_get(s, stack->instead);
	pieces = (stack->cnt + FSN_FRAMES_PIECE - 1) / FSN_FRAMES_PIECE;
	if (stack->cnt > FSN_FRAMES_MAX || pieces > s->frames_cnt ||
		stack->first > s->frames_cnt - pieces)
		return (struct stack) {};
	return (struct stack) { (const uint64_t *)&s->frames[stack->first], stack->cnt,
		stack->end, 0 };
}

const char *stack_end_name(enum fsn_walk_end end)
{
	static const char *const names[] = {
		[FSN_WALK_OUTERMOST] = "outermost",
		[FSN_WALK_DEEP] = "too_deep",
		[FSN_WALK_BUSY] = "busy",
		[FSN_WALK_NOWHERE] = "nowhere",
		[FSN_WALK_NO_TABLE] = "no_table",
		[FSN_WALK_NO_RULE] = "no_rule",
		[FSN_WALK_NO_MEMORY] = "no_memory",
		[FSN_WALK_LOST] = "lost",
		[FSN_WALK_NO_PAGE] = "no_page",
		[FSN_WALK_BAD_FRAMES] = "bad_frames",
		[FSN_WALK_BOUND] = "bound",
	};

	return end < ARRAY_SIZE(names) && names[end] ? names[end] : "unknown";
}

const char *stack_cut(const struct stack *stack)
{
	static const char *const cuts[] = {
		[FSN_WALK_DEEP] = "[too deep]",
		[FSN_WALK_BUSY] = "[truncated: mappings are changing]",
		[FSN_WALK_NOWHERE] = "[truncated: no code there]",
		[FSN_WALK_NO_TABLE] = "[truncated: file without an unwind table]",
		[FSN_WALK_NO_RULE] = "[truncated: code without an unwind table]",
		[FSN_WALK_NO_MEMORY] = "[truncated: stack is not there]",
		[FSN_WALK_LOST] = "[truncated: frame can't be followed]",
		[FSN_WALK_NO_PAGE] = "[truncated: page of file not in memory]",
		[FSN_WALK_BAD_FRAMES] = "[truncated: .eh_frame is damaged]",
		[FSN_WALK_BOUND] = "[truncated: too much .eh_frame to read]",
	};

	return stack->end < ARRAY_SIZE(cuts) ? cuts[stack->end] : NULL;
}

const char *stack_cut_named(const char *end)
{
	struct stack stack = {};

	for (int i = 0; i < FSN_WALK_ENDS; i++) {
		stack.end = (enum fsn_walk_end)i;
		if (!strcmp(stack_end_name(stack.end), end))
			return stack_cut(&stack);
	}
	return NULL;
}

const char *stack_end_text(enum fsn_walk_end end)
{
	static const char *const texts[] = {
		[FSN_WALK_DEEP] = "are too deep",
		[FSN_WALK_BUSY] = "met mappings that were changing",
		[FSN_WALK_NOWHERE] = "lead where no code is",
		[FSN_WALK_NO_TABLE] = "met a file before its unwind table was loaded",
		[FSN_WALK_NO_RULE] = "met code without an unwind rule",
		[FSN_WALK_NO_MEMORY] = "lead out of memory that is there",
		[FSN_WALK_LOST] = "have a frame that can't be followed",
		[FSN_WALK_NO_PAGE] = "met a page of a file that is not in memory",
		[FSN_WALK_BAD_FRAMES] = "met a file whose .eh_frame is damaged",
		[FSN_WALK_BOUND] = "met more .eh_frame than one walk may read",
	};

	return end < ARRAY_SIZE(texts) && texts[end] ? texts[end] : "have no known end";
}

/* --- names ---------------------------------------------------------------------------------- */

/* Adds a file that has an unwind table now. Two files with the same hash are both unknown. */
static void add_met(struct stacks *s, const struct fsn_file_id *id, uint32_t number)
{
	const uint64_t frame = met_frame(id, 0);

	for (size_t i = 0; i < s->met_cnt; i++)
		if (s->met[i].frame == frame) {
			s->met[i].number = 0;
			return;
		}
	*array_add(s->met, s->met_cnt) = (struct met) { frame, number };
}

static void read_met(struct stacks *s)
{
	const int fd = group_fd(s->g, MAPID_FILE_OF);
	struct fsn_file_ref ref;
	struct fsn_file_id id;

	map_foreach(fd, &id)
		if (!bpf_map_lookup_elem(fd, &id, &ref))
			add_met(s, &id, ref.file);
}

static uint64_t number_of(struct stacks *s, uint64_t frame)
{
	if (frame >> FSN_FRAME_SHIFT != FSN_FRAME_MET)
		return frame >> FSN_FRAME_SHIFT;
	if (!s->met_read)
		read_met(s);
	s->met_read = true;
	for (size_t i = 0; i < s->met_cnt; i++)
		if (s->met[i].frame == (frame & ~FSN_MET_OFFSET))
			return s->met[i].number;
	return 0;
}

static void read_met_names(struct stacks *s)
{
	const int fd = group_fd(s->g, MAPID_FILE_NAMES);
	struct fsn_file_name name;
	struct fsn_file_id id;

	map_foreach(fd, &id) {
		uint64_t frame = met_frame(&id, 0);
		struct met_name *met = s->met_names;

		if (bpf_map_lookup_elem(fd, &id, &name) || !name.cnt)
			continue;
		for (size_t i = 0; i < s->met_name_cnt; i++)
			if (met[i].frame == frame)
				strcpy(name.part[0], strcpy(met[i].name, "?"));
		met = array_add(s->met_names, s->met_name_cnt);
		met->frame = frame;
		snprintf(met->name, sizeof(met->name), "%.*s", FSN_NAME_PART - 1, name.part[0]);
	}
}

/* Returns the last component of the path that a file had when a walk met it, or "?". */
static const char *met_name(struct stacks *s, uint64_t frame)
{
	if (!s->met_names_read)
		read_met_names(s);
	s->met_names_read = true;
	for (size_t i = 0; i < s->met_name_cnt; i++)
		if (s->met_names[i].frame == (frame & ~FSN_MET_OFFSET))
			return s->met_names[i].name;
	return "?";
}

static uint64_t offset_of(uint64_t frame)
{
	return frame & (frame >> FSN_FRAME_SHIFT == FSN_FRAME_MET ? FSN_MET_OFFSET : FSN_FRAME_OFFSET);
}

/* Reads the record of a file that was added after read_records(). */
static struct frame_file *file_of(struct stacks *s, uint64_t frame)
{
	uint64_t number = number_of(s, frame);
	struct frame_file *file = number && number < FSN_FILES_MAX ? &s->files[number] : NULL;

	if (!file)
		return NULL;
	if (!file->about.size &&
		map_read_fixed(group_fd(s->g, MAPID_STACK_FILES), number, 1, sizeof(file->about), &file->about))
		return NULL;
	file->about.path[sizeof(file->about.path) - 1] = '\0';
	return *file->about.path ? file : NULL;
}

const char *stacks_place(struct stacks *s, uint64_t frame, uint64_t *ret_offset)
{
	const struct frame_file *file = file_of(s, frame);

	*ret_offset = offset_of(frame);
	return file ? file->about.path : NULL;
}

/* Opens the file if it is unchanged: a new file at its path would give wrong names. */
static struct elf_file *open_here(const struct fsn_stack_file *about, const struct object_id *id)
{
	struct elf_file *elf;

	if (!strcmp(about->path, ELF_VDSO) ? elf_vdso_open(&elf)
					   : object_is_stale(about->path, id) ||
				elf_file_open(about->path, &elf, NULL))
		return NULL;
	return elf;
}

/* Opens the file as @pid sees it, whose mount namespace can be another one. */
static struct elf_file *open_in_root(
	const struct fsn_stack_file *about, const struct object_id *id, pid_t pid)
{
	_cleanup_close_ int root = proc_open_root("/proc", pid, NULL), fd = -1;
	struct elf_file *elf;

	fd = root < 0 ? -1 : proc_open_in_root(root, about->path, 0, NULL);
	if (fd < 0 || !object_is_open(fd, id) ||
		elf_file_open_fd(TAKE_FD(fd), about->path, root, NULL, &elf, NULL))
		return NULL;
	return elf;
}

/* Opens the file of a process that has exited, if another one has its mount namespace. */
static struct elf_file *open_elsewhere(
	struct stacks *s, const struct fsn_stack_file *about, const struct object_id *id)
{
	struct elf_file *elf = NULL;

	if (!s->others)
		s->other_cnt = proc_mnt_namespaces("/proc", &s->others);
	for (size_t i = 0; i < s->other_cnt && !elf; i++)
		elf = open_in_root(about, id, s->others[i]);
	return elf;
}

/* Opens the file once, and again for another process if that failed. */
static struct elf_file *open_file(struct stacks *s, struct frame_file *file, pid_t pid)
{
	const struct fsn_stack_file *about = &file->about;
	const struct object_id id = { about->dev, about->ino, about->size, about->mtime_ns };
	const struct elf_func *funcs;
	size_t cnt;

	if (file->elf || (file->tried && (!pid || pid == file->tried_by)))
		return file->elf;
	if (!file->tried)
		file->elf = open_here(about, &id);
	if (!file->elf && pid)
		file->elf = open_in_root(about, &id, pid);
	if (!file->elf && !file->tried)
		file->elf = open_elsewhere(s, about, &id);
	file->tried = true;
	file->tried_by = pid;
	if (file->elf && elf_file_funcs(file->elf, &funcs, &cnt, NULL)) {
		elf_file_free(file->elf);
		file->elf = NULL;
	}
	return file->elf;
}

bool stack_in_kernel(const struct stack *stack)
{
	return stack->cnt && stack->frames[0] >> FSN_FRAME_SHIFT == KERNEL_FILE;
}

/* --- the kernel's --------------------------------------------------------------------------- */

DEFINE_ORDER(compare_symbols, struct symbol, RISING(addr))

/* Adds code symbols only. Addresses are 0 if the user cannot see them; those are skipped. */
static int add_symbol(const struct ksym *sym, void *userdata)
{
	struct stacks *s = userdata;

	if ((sym->of != KSYM_KERNEL) != s->symbols_read || !sym->addr || !strchr("tTwW", sym->type))
		return 0;
	if (!strcmp(sym->name, "_stext"))
		s->text = sym->addr;
	if (!strcmp(sym->name, "_etext"))
		s->text_end = sym->addr;
	*array_add(s->symbols, s->symbol_cnt) =
		(struct symbol) { .addr = sym->addr, .name = xstrdup(sym->name) };
	return 0;
}

/* Reads kernel symbols first, and symbols of loaded code only when one is needed. */
static void read_symbols(struct stacks *s)
{
	(void)ksyms_each(s->symbols_read ? KSYM_LOADED : KSYM_KERNEL, add_symbol, s);
	if (s->symbols)
		qsort(s->symbols, s->symbol_cnt, sizeof(*s->symbols), compare_symbols);
}

/* As flame graphs have it: "do_nanosleep_[k]". */
static char *kernel_name(struct stacks *s, uint64_t addr)
{
	bool loaded;
	size_t next;

	if (!s->symbols_read)
		read_symbols(s);
	s->symbols_read = true;
	loaded = addr < s->text || addr >= s->text_end;
	if (loaded && !s->loaded_read)
		read_symbols(s);
	s->loaded_read |= loaded;
	next = FIRST_WHERE(s->symbol_cnt, i, s->symbols[i].addr > addr);
	return next ? xasprintf("%s_[k]", s->symbols[next - 1].name)
		    : xasprintf("0x%llx_[k]", (unsigned long long)addr);
}

/* --- all of them ---------------------------------------------------------------------------- */

static struct frame_name *names_of(
	struct stacks *s, uint64_t frame, pid_t pid, size_t *ret_cnt)
{
	struct frame_file *file = file_of(s, frame);

	if (frame >> FSN_FRAME_SHIFT == FSN_FRAME_PYTHON)
		return python_names(s->g, frame, ret_cnt);
	if (frame >> FSN_FRAME_SHIFT == KERNEL_FILE)
		return frame_name_new(kernel_name(s, frame), ret_cnt);
	if (!file && frame >> FSN_FRAME_SHIFT == FSN_FRAME_MET)
		return frame_names(NULL, met_name(s, frame), offset_of(frame), s->lines, ret_cnt);
	return frame_names(file ? open_file(s, file, pid) : NULL, file ? file->about.path : NULL,
		offset_of(frame), s->lines, ret_cnt);
}

static struct named *place_of(struct named *names, size_t cnt, uint64_t frame)
{
	size_t i = (frame * 0x9e3779b97f4a7c15ULL) >> 32;

	while (names[i & (cnt - 1)].names && names[i & (cnt - 1)].frame != frame)
		i++;
	return &names[i & (cnt - 1)];
}

static void names_grow(struct stacks *s)
{
	size_t cnt = s->names_cnt ? 2 * s->names_cnt : 1024;
	struct named *names = xcalloc(cnt, sizeof(*names));

	for (size_t i = 0; i < s->names_cnt; i++)
		if (s->names[i].names)
			*place_of(names, cnt, s->names[i].frame) = s->names[i];
	free(s->names);
	s->names = names;
	s->names_cnt = cnt;
}

void stacks_want_lines(struct stacks *s)
{
	s->lines = true;
}

bool stacks_have_lines(const struct stacks *s)
{
	return s->lines;
}

/*
 * True for the page in which the kernel single-steps probed instructions, and to which return probes
 * return: the last one of the address space (get_xol_area(), kernel/events/uprobes.c).
 */
static bool is_of_probes(uint64_t addr)
{
	const uint64_t end = (addr | 4095) + 1;

#if defined(__x86_64__)
	return end == (1ULL << 47) - 4096 || end == (1ULL << 56) - 4096;
#else
	return end == 1ULL << 48;
#endif
}

const struct frame_name *stacks_names(
	struct stacks *s, uint64_t frame, pid_t pid, size_t *ret_cnt)
{
	const char *made = NULL;
	struct named *place;

	if (!(frame >> FSN_FRAME_SHIFT) && is_of_probes(frame))
		made = "[uprobes]";
	else if (!(frame >> FSN_FRAME_SHIFT) && pid)
		made = perf_map_name(&s->maps, pid, frame);
	if (!made && !(frame >> FSN_FRAME_SHIFT) && frame > 4096)
		s->nameless = pid;
	if (made) {
		s->optimized |= !strncmp(made, "JS:*", 4) || !strncmp(made, "LazyCompile:*", 13);
		/* The string belongs to the perf map. It is never written, so the cast is safe. */
		s->made.name = s->made.text = (char *)(uintptr_t)made;
		*ret_cnt = 1;
		return &s->made;
	}

	if (2 * s->names_used >= s->names_cnt)
		names_grow(s);
	place = place_of(s->names, s->names_cnt, frame);
	if (!place->names) {
		place->frame = frame;
		place->names = names_of(s, frame, pid, &place->cnt);
		s->names_used++;
	}
	*ret_cnt = place->cnt;
	return place->names;
}

/* Finds the last component of a function's name: "fill" of "geo::Box<int>::fill(int)". */
static const char *last_part(const char *name, size_t *ret_len)
{
	const char *part = name;
	int depth = 0;

	for (const char *p = name; *p; p++) {
		depth += (*p == '<' || *p == '(') - (*p == '>' || *p == ')');
		if (!depth && !strncmp(p, "::", 2))
			part = p + 2;
	}
	*ret_len = strcspn(part, "<( ");
	return part;
}

/* True if @name is of the function @copied. */
static bool is_copy_of(const struct frame_name *name, const char *copied)
{
	size_t len, wanted_len;
	const char *part = last_part(name->name, &len), *wanted = last_part(copied, &wanted_len);

	return name->inlined && len == wanted_len && !memcmp(part, wanted, len);
}

/* True if @name is at @line, "SOURCE:LINE". */
static bool is_at_line(const struct frame_name *name, const char *line)
{
	const char *colon = strrchr(line, ':');
	size_t len = colon ? colon - line : 0, source = name->source ? strlen(name->source) : 0;

	return colon && name->line && strtoul(colon + 1, NULL, 10) == name->line && source >= len &&
		!memcmp(name->source + source - len, line, len);
}

void stack_begin(struct stacks *s, struct stack *stack, pid_t pid, uint32_t fn)
{
	const char *func = group_func_name(s->g, fn);
	static const char inlined[] = " (inlined)";
	const size_t len = strlen(func), end = sizeof(inlined) - 1;
	const bool is_copy = len > end && !strcmp(func + len - end, inlined);
	_cleanup_free_ char *name = xstrndup(func, is_copy ? len - end : len), *plain = NULL;
	const struct frame_name *names;
	size_t cnt = 0;

	names = s->lines && stack->cnt ? stacks_names(s, stack->frames[0], pid, &cnt) : NULL;
	plain = demangle_is_mangled(name) ? demangle(name, DEMANGLE_NAME) : NULL;
	for (size_t i = 0; names && i < cnt; i++)
		if (is_copy ? is_copy_of(&names[i], plain ? plain : name) : is_at_line(&names[i], name)) {
			stack->inner = i + is_copy;
			return;
		}
}

const struct frame_name *stack_names(
	struct stacks *s, const struct stack *stack, size_t i, pid_t pid, size_t *ret_cnt)
{
	const struct frame_name *names = stacks_names(s, stack->frames[i], pid, ret_cnt);
	const size_t inner = i ? 0 : stack->inner;

	*ret_cnt -= inner;
	return names + inner;
}

pid_t stacks_nameless(const struct stacks *s)
{
	return s->nameless;
}

bool stacks_optimized(const struct stacks *s)
{
	return s->optimized;
}

const char *stacks_name(struct stacks *s, uint64_t frame, pid_t pid)
{
	size_t cnt;
	const struct frame_name *names = stacks_names(s, frame, pid, &cnt);

	return names[cnt - 1].name;
}
