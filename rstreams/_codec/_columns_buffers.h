/* Buffers that grow, and the columns that are made of them: see _columns.c. Functions return -1 with an error set. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------------------------- buffers */

typedef struct {
    char *at;
    size_t size, room;
} Buffer;

/* Large blocks that are not used, for the next columns: to clear the pages of a new block takes the kernel as long as to
   fill it. They belong to the process; whoever has the GIL may take them. */
enum { BLOCKS = 8, LARGE = 256 * 1024, MOST_KEPT = 16 * 1024 * 1024 };
static Buffer blocks[BLOCKS];
static size_t kept_bytes;

/* Free a block, or keep it. */
static void let_block_go(char *at, size_t room)
{
    for (int i = 0; room >= LARGE && room <= MOST_KEPT - kept_bytes && i < BLOCKS; i++)
        if (blocks[i].at == NULL) {
            blocks[i] = (Buffer){at, 0, room};
            kept_bytes += room;
            return;
        }
    free(at);
}

/* Return a kept block with at least so much room, which `*room` then is; NULL if there is none. */
static char *kept_block(size_t *room)
{
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].at != NULL && blocks[i].room >= *room) {
            char *at = blocks[i].at;
            *room = blocks[i].room;
            kept_bytes -= blocks[i].room;
            blocks[i].at = NULL;
            return at;
        }
    return NULL;
}

static int grow(Buffer *buffer, size_t more)
{
    size_t room = buffer->room ? buffer->room : 64;
    while (room - buffer->size < more) {
        if (room > (size_t)PY_SSIZE_T_MAX / 2) {
            PyErr_NoMemory();
            return -1;
        }
        room *= 2;
    }
    char *at = buffer->room < LARGE && room >= LARGE ? kept_block(&room) : NULL;
    if (at != NULL) {
        if (buffer->size)
            memcpy(at, buffer->at, buffer->size);
        free(buffer->at);
    } else if ((at = realloc(buffer->at, room)) == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    buffer->at = at;
    buffer->room = room;
    return 0;
}

static inline int reserve(Buffer *buffer, size_t more)
{
    return more <= buffer->room - buffer->size ? 0 : grow(buffer, more);
}

static inline int put(Buffer *buffer, const void *from, size_t size)
{
    if (reserve(buffer, size) < 0)
        return -1;
    if (size)
        memcpy(buffer->at + buffer->size, from, size);
    buffer->size += size;
    return 0;
}

static void drop(Buffer *buffer)
{
    let_block_go(buffer->at, buffer->room);
    memset(buffer, 0, sizeof *buffer);
}

/* Put the bit of row `row`, which is the next one. */
static inline int put_bit(Buffer *buffer, Py_ssize_t row, int bit)
{
    if (row % 8 == 0 && put(buffer, "", 1) < 0)
        return -1;
    if (bit)
        buffer->at[row / 8] |= (char)(1 << row % 8);
    return 0;
}

/* ---------------------------------------------------------------------------------------------------------- vectors */

/* An Arrow array without its children; which of the buffers it has depends on its form. `valid` has bits if there are
   nulls. */
typedef struct {
    Buffer valid, offsets, values;
    Py_ssize_t rows, nulls;
} Vector;

static void drop_vector(Vector *vector)
{
    drop(&vector->valid);
    drop(&vector->offsets);
    drop(&vector->values);
    vector->rows = vector->nulls = 0;
}

/* Put that all rows so far are valid: until the first null no bits are needed. */
static int put_all_valid(Vector *vector)
{
    const size_t bytes = (size_t)(vector->rows + 7) / 8;
    if (reserve(&vector->valid, bytes) < 0)
        return -1;
    if (bytes) {
        memset(vector->valid.at, 0xff, bytes);
        if (vector->rows % 8)
            vector->valid.at[bytes - 1] = (char)((1 << vector->rows % 8) - 1);
    }
    vector->valid.size = bytes;
    return 0;
}

static inline int put_valid(Vector *vector, int valid)
{
    if (!valid && vector->nulls == 0 && put_all_valid(vector) < 0)
        return -1;
    if ((!valid || vector->nulls) && put_bit(&vector->valid, vector->rows, valid) < 0)
        return -1;
    vector->rows++;
    vector->nulls += !valid;
    return 0;
}

/* Put where the row ends that comes next; offsets begin with a 0. */
static inline int put_offset(Vector *vector, size_t end)
{
    const int32_t none = 0, told = (int32_t)end;
    if (end > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a column has more than 2 GiB");
        return -1;
    }
    if (vector->offsets.size == 0 && put(&vector->offsets, &none, sizeof none) < 0)
        return -1;
    return put(&vector->offsets, &told, sizeof told);
}

static int put_bytes(Vector *vector, const char *from, size_t size)
{
    if (put(&vector->values, from, size) < 0 || put_offset(vector, vector->values.size) < 0)
        return -1;
    return put_valid(vector, 1);
}

static int put_no_bytes(Vector *vector)
{
    return put_offset(vector, vector->values.size) < 0 ? -1 : put_valid(vector, 0);
}

static int put_32(Vector *vector, int64_t number, int valid)
{
    const int32_t value = number > INT32_MAX ? INT32_MAX : number < INT32_MIN ? INT32_MIN : (int32_t)number;
    return put(&vector->values, &value, sizeof value) < 0 ? -1 : put_valid(vector, valid);
}

static int put_64(Vector *vector, int64_t number, int valid)
{
    return put(&vector->values, &number, sizeof number) < 0 ? -1 : put_valid(vector, valid);
}

static int put_flag(Vector *vector, int flag, int valid)
{
    return put_bit(&vector->values, vector->rows, flag) < 0 ? -1 : put_valid(vector, valid);
}

/* ------------------------------------------------------------------------------------- memory that Python may look at */

typedef struct {
    PyObject_HEAD
    Buffer buffer;
} Memory;

static int memory_get(PyObject *self, Py_buffer *view, int flags)
{
    Buffer *buffer = &((Memory *)self)->buffer;
    return PyBuffer_FillInfo(view, self, buffer->at ? buffer->at : "", (Py_ssize_t)buffer->size, 1, flags);
}

static void memory_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    drop(&((Memory *)self)->buffer);
    freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_object(self);
    Py_DECREF(type);
}

static PyType_Slot memory_slots[] = {
    {Py_bf_getbuffer, memory_get},
    {Py_tp_dealloc, memory_free},
    {Py_tp_doc, "A buffer of a column."},
    {0, NULL},
};

static PyType_Spec memory_spec = {
    .name = "rstreams._codec._columns.Memory",
    .basicsize = sizeof(Memory),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = memory_slots,
};

/* Return an object that has the bytes of the buffer, which is empty then. */
static PyObject *give(PyObject *memory_type, Buffer *buffer)
{
    allocfunc make = (allocfunc)PyType_GetSlot((PyTypeObject *)memory_type, Py_tp_alloc);
    PyObject *memory = make((PyTypeObject *)memory_type, 0);
    if (memory == NULL)
        return NULL;
    ((Memory *)memory)->buffer = *buffer;
    memset(buffer, 0, sizeof *buffer);
    return memory;
}
