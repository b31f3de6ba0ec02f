/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One ELF file, opened once: what it is, its functions by all symbol tables, and what the
 * planner needs of its code. The file may be hostile: whatever it holds ends in an error
 * or in fewer symbols, with bounded memory. It is mapped; one that somebody cuts short or
 * writes while it is read is refused as changed: elf_file_check().
 */
#ifndef FUNCSNOOP_ELF_ELF_FILE_H
#define FUNCSNOOP_ELF_ELF_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/util.h"

/* --- the code of one file as it is planned for: bytes, where code begins, its frames -------- */

enum plan_arch { PLAN_X86_64, PLAN_ARM64 };

struct plan_range {
	uint64_t start, end; /* [start, end), virtual addresses of the file */
};

/* A range that an FDE of .eh_frame describes. */
struct plan_fde {
	uint64_t start, end;
	uint64_t lsda; /* where its table of landing pads lies; 0: it has none */
};

#define PLAN_LSDA_UNREADABLE UINT64_MAX /* it has one, nobody knows where */

/*
 * A word that the dynamic linker fills with the address of a function, as stubs of the linkage
 * table jump through. It is one of this very file: unless @sure, another file may have put its
 * own in its place. Those that programs replace (operators new and delete, malloc) are left
 * out. Or, where .import is its name, one of another file.
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

/* What the planner sees of one file. The caller keeps all of it alive. */
struct plan_image {
	enum plan_arch arch;
	const struct plan_text *texts; /* executable segments, sorted, not overlapping */
	size_t text_cnt;
	const uint64_t
		*starts; /* addresses at which code symbols begin (all tables), without
				   those that plan_name_is_cold() tells; sorted, unique */
	size_t start_cnt;
	const struct plan_fde *fdes; /* .eh_frame, sorted by start; 0 may be left out */
	size_t fde_cnt;
	const struct plan_slot *slots; /* sorted by address */
	size_t slot_cnt;
	const struct plan_text *segments; /* all that is loaded: jump tables and landing
					     pads are read there; in any order */
	size_t segment_cnt;
	uint64_t entry; /* where an executable begins; 0: a library */
};

/*
 * Whether a symbol is a compiler's name for a cold part of a function (NAME.cold,
 * NAME.cold.N, NAME.__part.N): such a symbol begins no function.
 */
bool plan_name_is_cold(const char *name);

/* --- image.c: what .eh_frame and .gcc_except_table are made of --------------------------------- */

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

/* A cursor over bytes whose first has a known address; .bad once it ran over the end. */
struct eh_reader {
	const uint8_t *p, *end;
	const uint8_t *base;
	uint64_t addr; /* of base */
	bool bad;
};

/* A number of @n bytes, at most 8. */
uint64_t eh_read_bytes(struct eh_reader *r, size_t n);
uint64_t eh_read_leb(struct eh_reader *r, bool is_signed);
/* A number of the form that the low 4 bits of an encoding tell. */
uint64_t eh_read_value(struct eh_reader *r, uint8_t format);
/* An address: absolute or relative to its own place; others make the reader bad. */
uint64_t eh_read_pointer(struct eh_reader *r, uint8_t encoding);

/* --- the file ------------------------------------------------------------------------------- */

struct elf_file;

/* Facts of a file, all known once it is open. Strings live as long as the file. */
struct elf_info {
	const char *path; /* as given to elf_file_open() */
	enum plan_arch arch;
	dev_t dev; /* stat's; on overlayfs not what /proc/PID/maps shows */
	ino_t ino;
	uint64_t size;             /* bytes */
	uint64_t ctime_ns;         /* changes with every write, chmod, link and copy-up */
	bool overlay;              /* lies on overlayfs */
	const char *build_id;      /* hexadecimal, "" when it has none */
	const char *soname;        /* DT_SONAME or "" */
	const char *runpath;       /* DT_RUNPATH or DT_RPATH, or "" */
	const char *interp;        /* PT_INTERP, who loads it, or "" */
	const char *const *needed; /* DT_NEEDED, in the file's order */
	size_t needed_cnt;
	uint64_t entry;  /* e_entry: where an executable begins */
	bool executable; /* ET_EXEC, or ET_DYN with an interpreter or DF_1_PIE */
	bool is_static;  /* an executable without interpreter and NEEDED */
	bool go;         /* made by the Go compiler (.gopclntab, .note.go.buildid) */
};

enum elf_table {
	ELF_TABLE_DYNSYM,    /* what the dynamic linker sees */
	ELF_TABLE_SYMTAB,    /* .symtab of the file itself */
	ELF_TABLE_DEBUG,     /* .symtab of its separate debug file */
	ELF_TABLE_DEBUGDATA, /* .symtab inside .gnu_debugdata */
};

enum elf_kind {
	ELF_FUNC,  /* STT_FUNC */
	ELF_IFUNC, /* STT_GNU_IFUNC: the address is the resolver's, not the function's */
	ELF_LABEL, /* STT_NOTYPE in code: an assembler's label, perhaps a function */
};

/* A name of a function. Names are valid UTF-8 without control characters. */
struct elf_name {
	const char *name;    /* without version */
	const char *version; /* of "name@VERSION", or NULL */
	uint32_t len;        /* strlen(name) */
	uint32_t func;       /* index of its function */
	uint32_t next;       /* for elf_name_next() */
	uint8_t table;       /* enum elf_table: the first that has it */
	bool is_local;       /* STB_LOCAL: of one object file only */
	bool is_weak;        /* STB_WEAK */
	bool is_default; /* unversioned, or "name@@VERSION": what a linker takes now */
	bool piece;      /* .cold, .part.N, .isra.N, .constprop.N: made by a compiler */
	/*
	 * The function's own name, if this one is that of a clone: a copy or a part of the
	 * function, which is called like one (any piece but .cold). NULL for all others.
	 */
	const char *base;
};

/* A function: an address in code, with every name it has. */
struct elf_func {
	uint64_t addr;                /* virtual address in the file */
	uint64_t size;                /* bytes, the largest of its symbols; 0 unknown */
	uint64_t offset;              /* in the file; only where .in_code */
	const struct elf_name *names; /* best first: exported, default version, global */
	uint32_t name_cnt;            /* at least 1 */
	uint8_t kind;                 /* enum elf_kind */
	bool in_code;                 /* lies in an executable segment, with file bytes */
	bool exported;                /* one of its names is in .dynsym */
};

/*
 * Opens @path (O_CLOEXEC|O_NONBLOCK|O_NOCTTY). A regular file that is a 64-bit ELF file
 * for x86-64 or arm64 is needed: -ENOEXEC when it is something else, -EBADMSG when it is
 * damaged, -EINVAL when it is no regular file, or open's error. *ret_file is freed by
 * elf_file_free().
 */
_must_check_ int elf_file_open(
	const char *path, struct elf_file **ret_file, struct err *err);

/*
 * The same with a descriptor that is open for reading; it is taken over in any case.
 * @shown is the path for messages; @root_fd is a directory below which separate debug
 * files are looked for as well as below "/" (another mount namespace's root), or -1; it
 * is duplicated. @dir is the file's folder in there, or NULL when unknown.
 */
_must_check_ int elf_file_open_fd(int fd, const char *shown, int root_fd, const char *dir,
	struct elf_file **ret_file, struct err *err);
void elf_file_free(struct elf_file *f);

/*
 * What the kernel has mapped into each process that calls need not enter it, by the copy that this
 * one has: its addresses are offsets in it. -ENOENT where there is none.
 */
#define ELF_VDSO "[vdso]"
_must_check_ int elf_vdso_open(struct elf_file **ret_file, struct err *err);

const struct elf_info *elf_file_info(const struct elf_file *f);

/* The descriptor, to attach through /proc/self/fd/N. It belongs to the file. */
int elf_file_fd(const struct elf_file *f);

/*
 * Whether both are one file to the kernel, so that a probe on one is a probe on the other:
 * device and inode, or, since overlayfs mounts show other devices and perhaps other inodes for
 * one lower file, there the inode's lower half, size, change time and build id.
 */
bool elf_file_same(const struct elf_file *a, const struct elf_file *b);

/*
 * Whether what was read is what the file has: -EBADMSG when it was written or cut short since
 * it was opened. Whether another file lies at its path now is not told here. To be asked
 * once more after the last that is read, before anything is done with it.
 */
_must_check_ int elf_file_check(const struct elf_file *f, struct err *err);

/*
 * Functions of all tables, sorted by address, one per address. Read on the first call:
 * -EBADMSG for a damaged .dynsym or .symtab (a damaged debug file is passed over).
 * A file without any table gives 0 functions and no error.
 */
_must_check_ int elf_file_funcs(struct elf_file *f, const struct elf_func **ret_funcs,
	size_t *ret_cnt, struct err *err);

/*
 * Whether all that the file defines and imports by name is known: a dynamic one's .dynsym
 * was found, a static one's .symtab (valid after elf_file_funcs()).
 */
bool elf_file_names_known(const struct elf_file *f);

/*
 * Whether the file has lost its table of all symbols, and no debug file brings it back: what
 * it does not export has no name (valid after elf_file_funcs()).
 */
bool elf_file_is_stripped(const struct elf_file *f);

/*
 * Names spelled @name (its first @len bytes), best first; NULL when there is none. Walk on
 * with elf_name_next(). elf_file_funcs() must have succeeded before. The function of a
 * name is funcs[name->func].
 */
const struct elf_name *elf_file_lookup(struct elf_file *f, const char *name, size_t len);
const struct elf_name *elf_name_next(const struct elf_file *f, const struct elf_name *n);

/* The function whose symbol covers @addr, or NULL. elf_file_funcs() first. */
const struct elf_func *elf_file_func_at(const struct elf_file *f, uint64_t addr);

/*
 * Whether .dynsym defines or imports @name, or another table defines it; a name that ends
 * in '*' stands for all that begin so ("_Unwind_*"). 1, 0, or a negative error as from
 * elf_file_funcs().
 */
_must_check_ int elf_file_names_symbol(
	struct elf_file *f, const char *name, struct err *err);

/*
 * Whether @name is among the names of the dynamic linker, so that the file may define or import it.
 * Always true of a static executable. Reads no symbol table.
 */
bool elf_file_mentions(const struct elf_file *f, const char *name);

/* Bytes of its executable segments. */
uint64_t elf_file_code_size(const struct elf_file *f);

/* Whether .dynsym imports @name as a function of another file. elf_file_funcs() first. */
bool elf_file_imports(const struct elf_file *f, const char *name, size_t len);

/* The @ndx'th name that .dynsym imports, functions and data, sorted; NULL after the last. */
const char *elf_file_import(const struct elf_file *f, size_t ndx);

/* The address of what .dynsym defines as @name, function or data; 0: nothing, or it can't be read. */
uint64_t elf_file_dynamic_addr(const struct elf_file *f, const char *name);

/*
 * Addresses and file offsets by the program headers. They succeed only inside the bytes
 * that an executable segment has in the file: -ERANGE otherwise.
 */
_must_check_ int elf_file_addr_to_offset(
	const struct elf_file *f, uint64_t addr, uint64_t *ret_offset);
_must_check_ int elf_file_offset_to_addr(
	const struct elf_file *f, uint64_t offset, uint64_t *ret_addr);

/* The bytes at a virtual address in any segment, *ret_size left in it, or NULL. */
const uint8_t *elf_file_bytes(const struct elf_file *f, uint64_t addr, size_t *ret_size);

/* True if some function's name is that of a clone. elf_file_funcs() first. */
bool elf_file_has_clones(const struct elf_file *f);

/* How the function at an address gets its arguments, if Go's compiler made it. */
enum elf_go {
	ELF_GO_NOT,   /* Go's compiler did not make it */
	ELF_GO_REGS,  /* in Go's own order of registers (Go's src/cmd/compile/abi-internal.md) */
	ELF_GO_STACK, /* on the stack, or in a way that is not known: assembly, Go before 1.18 */
};

/* Returns how the function that begins at @addr gets its arguments. elf_file_funcs() first. */
enum elf_go elf_file_go(struct elf_file *f, uint64_t addr);

/* Whether processes map code at @addr writable, where the kernel puts no probes: valid_vma(). */
bool elf_file_is_writable(const struct elf_file *f, uint64_t addr);

/*
 * What planner_new() needs: code (executable sections; segments where there are no
 * sections), starts of code symbols of all tables, FDEs of .eh_frame. Everything belongs
 * to the file. Made on the first call; errors as from elf_file_funcs(). A damaged
 * .eh_frame gives the FDEs before the damage.
 */
_must_check_ int elf_file_image(
	struct elf_file *f, struct plan_image *ret_image, struct err *err);

/* What an FDE of .eh_frame says, with its CIE. Instructions are the file's bytes, any at all. */
struct elf_frame {
	uint64_t start, end; /* virtual addresses; .start lies in code */
	uint64_t lsda;       /* as in struct plan_fde */
	uint64_t code_align;
	int64_t data_align;
	uint64_t ret_reg; /* the column of the return address */
	bool signal;      /* it is that of a signal's trampoline */
	const uint8_t *first, *first_end; /* instructions of the CIE, */
	const uint8_t *insns, *insns_end; /* and those behind them */
};

/*
 * Tells @each of all frames, in the file's order, until it returns other than 0: what that is, or
 * 0. Of a damaged .eh_frame come those that can be read.
 */
typedef int (*elf_frame_fn)(const struct elf_frame *frame, void *arg);
int elf_file_frames(const struct elf_file *f, elf_frame_fn each, void *arg);

DEFINE_CLEANUP(elf_file, struct elf_file *, elf_file_free)
#define _cleanup_elf_file_ __cleanup(cleanup_elf_file)

/* --- USDT probes ---------------------------------------------------------------------------- */

/*
 * USDT probes of an ELF file: the notes that sys/sdt.h leaves in .note.stapsdt (SystemTap's
 * "UserSpaceProbeImplementation"), and where their arguments are while a probe is hit.
 */

#define USDT_MAX_ARGS 12 /* as many as sys/sdt.h has */

enum usdt_arg_kind {
	USDT_ARG_UNKNOWN, /* said in a way that is not understood: no value */
	USDT_ARG_CONST,   /* .offset is the value */
	USDT_ARG_REG,     /* register .reg */
	USDT_ARG_MEM,     /* .size bytes at .reg + .offset + (.index << .shift) */
};

#define USDT_NO_REG 0xff

/*
 * Registers are numbered by their word in what a program gets: struct pt_regs on x86-64
 * (arch/x86/include/asm/ptrace.h: r15 is 0, rsp 19), struct user_pt_regs on arm64 (x0 is 0,
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

/* A place in code where a probe is hit; a probe may have several, with other arguments each. */
struct usdt_site {
	const char *provider, *name; /* valid UTF-8 without control characters or spaces */
	uint64_t addr;               /* virtual address in the file */
	uint64_t offset;             /* in the file, of code */
	uint64_t semaphore;          /* file offset of its 16-bit counter; 0: none */
	struct usdt_arg args[USDT_MAX_ARGS];
	unsigned int arg_cnt;
};

struct usdt_sites {
	struct usdt_site *sites; /* sorted by provider, name, address; none twice */
	size_t cnt;
	size_t refused; /* notes that are damaged, or lead to no code of the file */
	char *names;    /* what provider and name point into */
};

/* All of @f: none is no error. *ret ends by usdt_sites_done(). */
void usdt_sites_read(const struct elf_file *f, struct usdt_sites *ret);
void usdt_sites_done(struct usdt_sites *s);

/*
 * The arguments that @text ("-4@%edi 8@-16(%rbp)", as gas wrote it for @arch) says, at most
 * USDT_MAX_ARGS; returns how many. What is not understood is an argument of unknown kind.
 */
unsigned int usdt_args_parse(
	const char *text, enum plan_arch arch, struct usdt_arg ret_args[USDT_MAX_ARGS]);

/* --- demangling ----------------------------------------------------------------------------- */

/* Demangling of C++ and Rust names, bounded: mangled names of a hostile file can blow up. */

/* Longest name that is tried, and longest result, in bytes. */
#define DEMANGLE_MAX_IN  8192
#define DEMANGLE_MAX_OUT 32768

/* Whether @name looks mangled: _Z or _R in front. */
bool demangle_is_mangled(const char *name);

enum demangle_form {
	DEMANGLE_NAME,    /* the qualified name, template arguments included */
	DEMANGLE_ARGS,    /* with arguments, and the result type where it is known */
	DEMANGLE_VERBOSE, /* the same with std::ostream and the like written out (c++filt) */
};

/*
 * @symbol as written in the source. A malloc'ed string, or NULL when it is not a mangled
 * name, is too long, or memory is out.
 */
char *demangle(const char *symbol, enum demangle_form form);

/*
 * The same into a buffer that is grown (*buf malloc'ed or NULL, *cap its size), for loops
 * over many symbols. The length, or 0 as above.
 */
size_t demangle_into(
	const char *symbol, enum demangle_form form, char **buf, size_t *cap);

#endif
