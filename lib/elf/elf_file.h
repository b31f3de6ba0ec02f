/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads one ELF file, opened once: its facts, its functions from all symbol tables, and the parts
 * that the planner needs. The file may be hostile: any content results in an error or in fewer
 * symbols, with bounded memory. The file is mapped; if it is truncated or written while it is read,
 * elf_file_check() rejects it as changed.
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "base/util.h"

/* --- the code of one file as the planner sees it: bytes, start of code, frames --------------- */

enum plan_arch { PLAN_X86_64, PLAN_ARM64 };

struct plan_range {
	uint64_t start, end; /* [start, end), virtual addresses of the file */
};

/* A range that an FDE of .eh_frame describes. */
struct plan_fde {
	uint64_t start, end;
	uint64_t lsda; /* address of its table of landing pads; 0: none */
	bool framed;   /* the frame of a function is in place at .start: a cold part, or the PLT */
};

#define PLAN_LSDA_UNREADABLE UINT64_MAX /* it has one, at an unknown address */

/*
 * A word that the dynamic linker fills with the address of a function, such as a GOT entry that a
 * PLT stub jumps through. .target is a function of this file; unless .sure, the word may hold
 * another file's function of that name. Functions that programs replace (operators new and delete,
 * malloc) are left out. If .import is set, the word holds another file's function of that name.
 */
struct plan_slot {
	uint64_t addr, target;
	bool sure;
	const char *import; /* or NULL; it lives as long as the file */
};

struct plan_text {
	uint64_t addr; /* virtual address of bytes[0] */
	const uint8_t *bytes;
	size_t size;
};

/* The view that the planner has of one file. The caller keeps all of it alive. */
struct plan_image {
	enum plan_arch arch;
	const struct plan_text *texts; /* executable segments, sorted, not overlapping */
	size_t text_cnt;
	const uint64_t
		*starts; /* addresses at which code symbols begin (all tables), without
				   those that plan_name_is_cold() tells; sorted, unique */
	size_t start_cnt;
	const struct plan_fde *fdes; /* .eh_frame, sorted by start; none is required */
	size_t fde_cnt;
	const struct plan_slot *slots; /* sorted by address */
	size_t slot_cnt;
	const struct plan_text *segments; /* all that is loaded: jump tables and landing
					     pads are read there; in any order */
	size_t segment_cnt;
	uint64_t entry; /* entry point of an executable; 0: a library */
};

/*
 * True if @name is a compiler's name for the cold part of a function (NAME.cold, NAME.cold.N,
 * NAME.__part.N). Such a symbol does not start a function.
 */
bool plan_name_is_cold(const char *name);

/* --- image.c: decoding of .eh_frame and .gcc_except_table ------------------------------------ */

/* Pointer encodings (Linux Standard Base, "DWARF Extensions"). */
#define PE_ABSPTR   0x00
#define PE_ULEB128  0x01
#define PE_UDATA2   0x02
#define PE_UDATA4   0x03
#define PE_UDATA8   0x04
#define PE_SLEB128  0x09
#define PE_SDATA2   0x0a
#define PE_SDATA4   0x0b
#define PE_SDATA8   0x0c
#define PE_PCREL    0x10
#define PE_INDIRECT 0x80
#define PE_OMIT     0xff

/* A cursor over bytes at a known address; .bad is set when it would pass the end. */
struct eh_reader {
	const uint8_t *p, *end;
	const uint8_t *base;
	uint64_t addr; /* of base */
	bool bad;
};

/* Reads a number of @n bytes, at most 8. */
uint64_t eh_read_bytes(struct eh_reader *r, size_t n);
uint64_t eh_read_leb(struct eh_reader *r, bool is_signed);
/* Reads a number in the form given by the low 4 bits of an encoding. */
uint64_t eh_read_value(struct eh_reader *r, uint8_t format);
/* Reads an address, absolute or PC-relative; other encodings set .bad. */
uint64_t eh_read_pointer(struct eh_reader *r, uint8_t encoding);

/* --- the file ------------------------------------------------------------------------------- */

struct elf_file;

/* Facts of a file, all known after it is opened. Strings live as long as the file. */
struct elf_info {
	const char *path; /* as given to elf_file_open() */
	enum plan_arch arch;
	dev_t dev; /* from stat(2); on overlayfs, /proc/PID/maps shows another one */
	ino_t ino;
	uint64_t size;             /* bytes */
	uint64_t mtime_ns;         /* when it was opened */
	uint64_t ctime_ns;         /* changes with every write, chmod, link and copy-up */
	bool overlay;              /* on overlayfs */
	const char *build_id;      /* hexadecimal; "" if it has none */
	const char *soname;        /* DT_SONAME or "" */
	const char *runpath;       /* DT_RUNPATH or DT_RPATH, or "" */
	const char *interp;        /* PT_INTERP, the dynamic linker, or "" */
	const char *const *needed; /* DT_NEEDED, in file order */
	size_t needed_cnt;
	uint64_t entry;  /* e_entry: entry point of an executable */
	bool executable; /* ET_EXEC, or ET_DYN with an interpreter or DF_1_PIE */
	bool is_static;  /* an executable without interpreter and NEEDED */
	bool go;         /* built by the Go compiler (.gopclntab, .note.go.buildid) */
};

enum elf_table {
	ELF_TABLE_DYNSYM,    /* the dynamic linker's table */
	ELF_TABLE_SYMTAB,    /* .symtab of the file itself */
	ELF_TABLE_DEBUG,     /* .symtab of its separate debug file */
	ELF_TABLE_DEBUGDATA, /* .symtab inside .gnu_debugdata */
};

enum elf_kind {
	ELF_FUNC,  /* STT_FUNC */
	ELF_IFUNC, /* STT_GNU_IFUNC: the address is the resolver's, not the function's */
	ELF_LABEL, /* STT_NOTYPE in code: an assembler's label, possibly a function */
};

/* A name of a function. Names are valid UTF-8 without control characters. */
struct elf_name {
	const char *name;    /* without version */
	const char *version; /* of "name@VERSION", or NULL */
	uint32_t len;        /* strlen(name) */
	uint32_t func;       /* index of its function */
	uint32_t next;       /* for elf_name_next() */
	uint8_t table;       /* enum elf_table: the first that contains it */
	bool is_local;       /* STB_LOCAL: local to one object file */
	bool is_weak;        /* STB_WEAK */
	bool is_default; /* unversioned, or "name@@VERSION": the one that a linker uses now */
	bool piece;      /* .cold, .part.N, .isra.N, .constprop.N: created by a compiler */
	/*
	 * Name of the original function if this is a clone: a copy or part of a function that is
	 * called like a function (any piece except .cold). Otherwise NULL.
	 */
	const char *base;
};

/* A function: an address in code, with all its names. */
struct elf_func {
	uint64_t addr;                /* virtual address in the file */
	uint64_t size;                /* bytes, the largest of its symbols; 0: unknown */
	uint64_t offset;              /* in the file; only if .in_code */
	const struct elf_name *names; /* best first: exported, default version, global */
	uint32_t name_cnt;            /* at least 1 */
	uint8_t kind;                 /* enum elf_kind */
	bool in_code;                 /* in an executable segment, with bytes in the file */
	bool exported;                /* one of its names is in .dynsym */
};

/*
 * Opens @path (O_CLOEXEC|O_NONBLOCK|O_NOCTTY). It must be a regular 64-bit ELF file for x86-64 or
 * arm64. The caller frees *ret_file with elf_file_free().
 *
 * Returns 0, -ENOEXEC if it is another kind of file, -EBADMSG if it is damaged, -EINVAL if it is
 * not regular, or the error of open().
 */
_must_check_ int elf_file_open(
	const char *path, struct elf_file **ret_file, struct err *err);

/*
 * Same with descriptor @fd, open for reading, which the function always takes over. @shown is the
 * path for messages. @root_fd is another directory (the root of another mount namespace), or -1:
 * separate debug files are searched for below it as well as below "/". It is duplicated. @dir is
 * the directory of the file below @root_fd; NULL: unknown.
 */
_must_check_ int elf_file_open_fd(int fd, const char *shown, int root_fd, const char *dir,
	struct elf_file **ret_file, struct err *err);
void elf_file_free(struct elf_file *f);

/*
 * Opens the vDSO: code that the kernel maps into every process, so that some calls need not enter
 * the kernel. Reads this process's copy; its addresses are offsets in it. Returns -ENOENT if there
 * is none.
 */
#define ELF_VDSO "[vdso]"
_must_check_ int elf_vdso_open(struct elf_file **ret_file);

const struct elf_info *elf_file_info(const struct elf_file *f);

/* Returns the descriptor, for attaching through /proc/self/fd/N. It belongs to the file. */
int elf_file_fd(const struct elf_file *f);

/*
 * True if both are the same file to the kernel, so that a probe on one is a probe on the other.
 * Compares device and inode. Overlayfs mounts show other devices and possibly other inodes for one
 * lower file; there, the lower half of the inode, the size, the change time and the build id
 * decide.
 */
bool elf_file_same(const struct elf_file *a, const struct elf_file *b);

/*
 * Checks that the data read is that of the file. Returns 0, or -EBADMSG if the file was written or
 * truncated after it was opened. Does not check whether another file is now at its path.
 *
 * The caller checks again after the last read, before it acts on the data.
 */
_must_check_ int elf_file_check(const struct elf_file *f, struct err *err);

/*
 * Lists the functions of all tables, sorted by address, one per address. Reads the tables on the
 * first call. A file without any table has 0 functions.
 *
 * Returns 0, or -EBADMSG for a damaged .dynsym or .symtab. A damaged debug file is ignored.
 */
_must_check_ int elf_file_funcs(struct elf_file *f, const struct elf_func **ret_funcs,
	size_t *ret_cnt, struct err *err);

/*
 * True if all names that the file defines and imports are known: the .dynsym of a dynamic file or
 * the .symtab of a static file was found. Valid after elf_file_funcs().
 */
bool elf_file_names_known(const struct elf_file *f);

/*
 * True if the file has no .symtab and no debug file supplies one, so that functions that are not
 * exported have no name. Valid after elf_file_funcs().
 */
bool elf_file_is_stripped(const struct elf_file *f);

/*
 * Returns the names equal to the first @len bytes of @name, best first; NULL if there is none.
 * elf_name_next() returns the next one. Valid after elf_file_funcs(). The function of a name is
 * funcs[name->func].
 */
const struct elf_name *elf_file_lookup(struct elf_file *f, const char *name, size_t len);
const struct elf_name *elf_name_next(const struct elf_file *f, const struct elf_name *n);

/* Returns the function whose symbol covers @addr, or NULL. Valid after elf_file_funcs(). */
const struct elf_func *elf_file_func_at(const struct elf_file *f, uint64_t addr);

/*
 * Finds the variable whose symbol covers @addr; it begins at *@ret_begin. The caller frees its name.
 * Reads the symbol tables again. Returns NULL if there is none.
 */
char *elf_file_variable_at(struct elf_file *f, uint64_t addr, uint64_t *ret_begin);

/*
 * Returns 1 if .dynsym defines or imports @name, or another table defines it; 0 if not, or an error
 * of elf_file_funcs(). A name that ends in '*' matches all names with that prefix ("_Unwind_*").
 */
_must_check_ int elf_file_names_symbol(
	struct elf_file *f, const char *name, struct err *err);

/*
 * True if @name is in the dynamic string table, so that the file may define or import it. Always
 * true for a static executable. Reads no symbol table.
 */
bool elf_file_mentions(const struct elf_file *f, const char *name);

/* Returns the size of its executable segments in bytes. */
uint64_t elf_file_code_size(const struct elf_file *f);

/* True if .dynsym imports @name as a function of another file. Valid after elf_file_funcs(). */
bool elf_file_imports(const struct elf_file *f, const char *name, size_t len);

/* Returns import @ndx of .dynsym, a function or data, sorted by name; NULL after the last. */
const char *elf_file_import(const struct elf_file *f, size_t ndx);

/*
 * Returns the address of the function or data that .dynsym defines as @name; 0 if there is none or
 * it cannot be read.
 */
uint64_t elf_file_dynamic_addr(const struct elf_file *f, const char *name);

/*
 * Convert between addresses and file offsets by the program headers. Return 0, or -ERANGE unless
 * the address is in the file bytes of an executable segment.
 */
_must_check_ int elf_file_addr_to_offset(
	const struct elf_file *f, uint64_t addr, uint64_t *ret_offset);
_must_check_ int elf_file_offset_to_addr(
	const struct elf_file *f, uint64_t offset, uint64_t *ret_addr);

/*
 * The same for writable data, which may be beyond the bytes in the file: for the byte at distance
 * @after from the file's start in memory, and for an offset. False if there is no such data.
 */
bool elf_file_head_to_data(const struct elf_file *f, uint64_t after, uint64_t *ret_addr,
	uint64_t *ret_offset);
bool elf_file_offset_to_data(const struct elf_file *f, uint64_t offset, uint64_t *ret_addr);

/*
 * Returns the bytes at a virtual address in any segment, with the number left in it in *ret_size,
 * or NULL.
 */
const uint8_t *elf_file_bytes(const struct elf_file *f, uint64_t addr, size_t *ret_size);

/* True if the name of some function is that of a clone. Valid after elf_file_funcs(). */
bool elf_file_has_clones(const struct elf_file *f);

/* The calling convention of a function, if the Go compiler built it. */
enum elf_go {
	ELF_GO_NOT,   /* not built by the Go compiler */
	ELF_GO_REGS,  /* in Go's register order (Go's src/cmd/compile/abi-internal.md) */
	ELF_GO_STACK, /* on the stack, or unknown: assembly, Go before 1.18 */
};

/* Returns the calling convention of the function at @addr. Valid after elf_file_funcs(). */
enum elf_go elf_file_go(struct elf_file *f, uint64_t addr);

/*
 * True if processes map the code at @addr writable. The kernel inserts no breakpoints there; see
 * valid_vma().
 */
bool elf_file_is_writable(const struct elf_file *f, uint64_t addr);

/*
 * Returns the input of planner_new(): code (executable sections, or segments if there are no
 * sections), starts of code symbols of all tables, and FDEs of .eh_frame. The file owns everything.
 * Built on the first call.
 *
 * Returns 0 or an error of elf_file_funcs(). If .eh_frame is damaged, the FDEs before the damage
 * are returned.
 */
_must_check_ int elf_file_image(
	struct elf_file *f, struct plan_image *ret_image, struct err *err);

/* An FDE of .eh_frame with its CIE. Instructions are unchecked bytes of the file. */
struct elf_frame {
	uint64_t start, end; /* virtual addresses; .start is in code */
	uint64_t lsda;       /* as in struct plan_fde */
	uint64_t code_align;
	int64_t data_align;
	uint64_t ret_reg; /* the column of the return address */
	bool signal;      /* the frame of a signal trampoline */
	const uint8_t *first, *first_end; /* instructions of the CIE, */
	const uint8_t *insns, *insns_end; /* followed by those of the FDE */
};

/*
 * Calls @each for all frames in file order until it returns nonzero. Returns that value, or 0. If
 * .eh_frame is damaged, only the readable frames are reported.
 */
typedef int (*elf_frame_fn)(const struct elf_frame *frame, void *arg);
int elf_file_frames(const struct elf_file *f, elf_frame_fn each, void *arg);

DEFINE_CLEANUP(elf_file, struct elf_file *, elf_file_free)
#define _cleanup_elf_file_ __cleanup(cleanup_elf_file)

/* --- USDT probes ---------------------------------------------------------------------------- */

/*
 * USDT probes of an ELF file, from the notes that sys/sdt.h writes to .note.stapsdt (SystemTap's
 * "UserSpaceProbeImplementation"), and the locations of their arguments at the probe.
 */

#define USDT_MAX_ARGS 12 /* limit of sys/sdt.h */

enum usdt_arg_kind {
	USDT_ARG_UNKNOWN, /* in a form that is not supported: no value */
	USDT_ARG_CONST,   /* .offset is the value */
	USDT_ARG_REG,     /* register .reg */
	USDT_ARG_MEM,     /* .size bytes at .reg + .offset + (.index << .shift) */
};

#define USDT_NO_REG 0xff

/*
 * Register numbers are word indices in the registers that BPF programs get: struct pt_regs on
 * x86-64 (arch/x86/include/asm/ptrace.h: r15 is 0, rsp 19), struct user_pt_regs on arm64 (x0 is 0,
 * sp 31).
 */
struct usdt_arg {
	uint8_t kind;  /* enum usdt_arg_kind */
	uint8_t size;  /* bytes: 1, 2, 4 or 8 */
	uint8_t reg;   /* USDT_NO_REG: none */
	uint8_t index; /* USDT_NO_REG: none */
	uint8_t shift; /* 0 to 3 */
	bool is_signed;
	int64_t offset;
};

/* A probe site in code. A probe can have several, each with its own arguments. */
struct usdt_site {
	const char *provider, *name; /* valid UTF-8 without control characters or spaces */
	uint64_t addr;               /* virtual address in the file */
	uint64_t offset;             /* in the file, in code */
	uint64_t semaphore;          /* file offset of its 16-bit counter; 0: none */
	struct usdt_arg args[USDT_MAX_ARGS];
	unsigned int arg_cnt;
};

struct usdt_sites {
	struct usdt_site *sites; /* sorted by provider, name, address; unique */
	size_t cnt;
	size_t refused; /* notes that are damaged or refer to an address outside the code */
	char *names;    /* memory of provider and name */
};

/* Reads all probes of @f, possibly none. The caller frees *ret with usdt_sites_done(). */
void usdt_sites_read(const struct elf_file *f, struct usdt_sites *ret);
void usdt_sites_done(struct usdt_sites *s);

/*
 * Parses arguments in the form that gas writes for @arch ("-4@%edi 8@-16(%rbp)"), at most
 * USDT_MAX_ARGS. Returns their number. An argument that cannot be parsed has kind USDT_ARG_UNKNOWN.
 */
unsigned int usdt_args_parse(
	const char *text, enum plan_arch arch, struct usdt_arg ret_args[USDT_MAX_ARGS]);

/* --- demangling ----------------------------------------------------------------------------- */

/* Demangling of C++ and Rust names with limits, because a hostile name can expand without bound. */

/* Maximum length of a mangled name, and of the result, in bytes. */
#define DEMANGLE_MAX_IN  8192
#define DEMANGLE_MAX_OUT 32768

/* True if @name looks mangled: it starts with _Z or _R. */
bool demangle_is_mangled(const char *name);

enum demangle_form {
	DEMANGLE_NAME,    /* the qualified name, template arguments included */
	DEMANGLE_ARGS,    /* with arguments, and with the result type if known */
	DEMANGLE_VERBOSE, /* the same with std::ostream and similar written in full (c++filt) */
};

/*
 * Demangles @symbol. Returns a string that the caller frees, or NULL if @symbol is not mangled or
 * too long, or if memory is out.
 */
char *demangle(const char *symbol, enum demangle_form form);

/*
 * Same into a buffer that grows (*buf is malloc'ed or NULL, *cap its size), for loops over many
 * symbols. Returns the length, or 0 instead of NULL.
 */
size_t demangle_into(
	const char *symbol, enum demangle_form form, char **buf, size_t *cap);
