/* Columns as encoded messages, without an object for any part of a row: see _columns.c and columns.py. */

/* An array in the layout of Arrow, as far as its form has these buffers. */
typedef struct {
    const char *valid, *offsets, *values;
    Py_ssize_t rows;
    Py_buffer views[3];
    int held; /* how many of `views` */
} Layout;

typedef struct {
    int form;
    Layout main, keys, items;
} Input;

/* A field of a section that is a list. */
typedef struct {
    Field known;
    int64_t absent; /* the value of a field that is absent */
    int has_absent;
    const Input *input; /* NULL: no row has the field */
} Output;

/* More flags of message_fields.Form. */
enum { AS_NAME = 128, AS_OCTET = 256 };
enum { MAX_INPUTS = HEADER_FIELDS + PROPERTIES_FIELDS + 4 };

typedef struct {
    Py_ssize_t rows;
    Output header[HEADER_FIELDS], properties[PROPERTIES_FIELDS];
    const Input *others[SOURCES]; /* the columns that are not fields of a list, by their source */
    int durable;
    const char *prefix; /* of the ids of rows without one; NULL: they get none */
    Py_ssize_t prefix_size, first_id;
    Input inputs[MAX_INPUTS];
    Buffer message, list;
} Writing;

typedef struct {
    const char *at;
    size_t size;
} Slice;

/* The results of functions that write a part of a row; -1: an error is set. */
enum { RARE, WRITTEN };

/* ----------------------------------------------------------------------------------------------- reading of the columns */

static int is_valid(const Layout *layout, Py_ssize_t row)
{
    return layout->valid == NULL || (layout->valid[row / 8] >> row % 8 & 1);
}

static int32_t offset_of(const Layout *layout, Py_ssize_t row)
{
    int32_t offset;
    memcpy(&offset, layout->offsets + row * (Py_ssize_t)sizeof offset, sizeof offset);
    return offset;
}

static Slice slice_of(const Layout *layout, Py_ssize_t row)
{
    const int32_t from = offset_of(layout, row);
    return (Slice){layout->values + from, (size_t)(offset_of(layout, row + 1) - from)};
}

static int64_t number_of(const Input *input, Py_ssize_t row)
{
    const char *values = input->main.values;
    int32_t narrow;
    int64_t wide;
    switch (input->form) {
    case FLAG_FORM: return values[row / 8] >> row % 8 & 1;
    case INT32_FORM: memcpy(&narrow, values + row * (Py_ssize_t)sizeof narrow, sizeof narrow); return narrow;
    default: memcpy(&wide, values + row * (Py_ssize_t)sizeof wide, sizeof wide); return wide;
    }
}

static int64_t milliseconds_of(int64_t microseconds)
{
    return microseconds / 1000 - (microseconds % 1000 < 0); /* as // in Python */
}

/* ------------------------------------------------------------------------------------------------------------- writing */

static int write_fixed(Buffer *to, unsigned code, uint64_t number, int width)
{
    char bytes[9] = {(char)code};
    for (int i = width; i > 0; i--, number >>= 8)
        bytes[i] = (char)number;
    return put(to, bytes, 1 + (size_t)width) < 0 ? -1 : WRITTEN;
}

static int write_uint(Buffer *to, uint64_t number)
{
    return number == 0 ? write_fixed(to, 0x43, 0, 0) : write_fixed(to, number < 256 ? 0x52 : 0x70, number, number < 256 ? 1 : 4);
}

/* Write bytes or a text, whose constructor is `code`, or `code` + 0x10 if it is long. */
static int write_sized(Buffer *to, unsigned code, Slice content)
{
    const int wide = content.size >= 256;
    if (write_fixed(to, wide ? code + 0x10 : code, content.size, wide ? 4 : 1) < 0)
        return -1;
    return put(to, content.at, content.size) < 0 ? -1 : WRITTEN;
}

static int write_string(Buffer *to, Slice text)
{
    return is_text((const unsigned char *)text.at, text.size) ? write_sized(to, 0xa1, text) : RARE;
}

static int write_symbol(Buffer *to, Slice text)
{
    return is_ascii((const unsigned char *)text.at, text.size) ? write_sized(to, 0xa3, text) : RARE;
}

static int write_section(Buffer *to, unsigned code)
{
    const char start[] = {0, 0x53, (char)code};
    return put(to, start, sizeof start) < 0 ? -1 : WRITTEN;
}

/* Write a section that is a list or a map, of the content that is in `list`. */
static int write_compound(Writing *self, unsigned section, unsigned code, size_t count)
{
    const size_t size = self->list.size;
    const int wide = size >= 255 || count >= 256;
    if (write_section(&self->message, section) < 0 ||
        write_fixed(&self->message, wide ? code + 0x10 : code, size + (wide ? 4 : 1), wide ? 4 : 1) < 0)
        return -1;
    const char head[] = {(char)(count >> 24), (char)(count >> 16), (char)(count >> 8), (char)count};
    if (put(&self->message, wide ? head : head + 3, wide ? 4 : 1) < 0 || put(&self->message, self->list.at, size) < 0)
        return -1;
    return WRITTEN;
}

static int write_number(Buffer *to, const Output *output, int64_t number)
{
    if (number < 0 || (uint64_t)number > output->known.limit)
        return RARE;
    return output->known.forms & AS_OCTET ? write_fixed(to, 0x50, (uint64_t)number, 1) : write_uint(to, (uint64_t)number);
}

static int write_time(Buffer *to, int64_t microseconds)
{
    const int64_t milliseconds = milliseconds_of(microseconds);
    if (milliseconds < FIRST_MS || milliseconds > LAST_MS)
        return RARE;
    return write_fixed(to, 0x83, (uint64_t)milliseconds, 8);
}

static int write_column(Buffer *to, const Output *output, Py_ssize_t row)
{
    const Input *input = output->input;
    switch (input->form) {
    case BYTES_FORM: return write_sized(to, 0xa0, slice_of(&input->main, row));
    case TEXT_FORM:
        return output->known.forms & AS_NAME ? write_symbol(to, slice_of(&input->main, row))
                                       : write_string(to, slice_of(&input->main, row));
    case TIME_FORM: return write_time(to, number_of(input, row));
    case FLAG_FORM: return write_fixed(to, number_of(input, row) ? 0x41 : 0x42, 0, 0);
    default: return write_number(to, output, number_of(input, row));
    }
}

static int has_field(const Output *output, Py_ssize_t row)
{
    const Input *input = output->input;
    if (input == NULL || !is_valid(&input->main, row))
        return 0;
    return !output->has_absent || number_of(input, row) != output->absent;
}

static int write_id(Writing *self, const Output *output, Py_ssize_t row)
{
    char digits[24];
    if (has_field(output, row) && (self->prefix == NULL || slice_of(&output->input->main, row).size > 0))
        return write_column(&self->list, output, row);
    const size_t size = (size_t)snprintf(digits, sizeof digits, "%lld", (long long)self->first_id + row);
    const size_t all = (size_t)self->prefix_size + size;
    const int wide = all >= 256;
    if (write_fixed(&self->list, wide ? 0xb1 : 0xa1, all, wide ? 4 : 1) < 0 ||
        put(&self->list, self->prefix, (size_t)self->prefix_size) < 0 || put(&self->list, digits, size) < 0)
        return -1;
    return WRITTEN;
}

/* Write a section that is a list, without the absent fields at its end; no section if all are absent. */
static int write_list(Writing *self, unsigned section, const Output *outputs, size_t count, Py_ssize_t row)
{
    const int is_header = section == HEADER, first = is_header ? self->durable : self->prefix != NULL;
    const Input *durable = is_header ? outputs[0].input : NULL;
    int has_first = has_field(outputs, row) || first, done;
    if (durable != NULL && is_valid(&durable->main, row))
        has_first = number_of(durable, row) != 0;
    while (count > 1 && !has_field(outputs + count - 1, row))
        count--;
    if (count == 1 && !has_first)
        return WRITTEN;
    self->list.size = 0;
    for (size_t i = 0; i < count; i++) {
        if (i == 0 ? !has_first : !has_field(outputs + i, row))
            done = write_fixed(&self->list, 0x40, 0, 0);
        else if (i > 0)
            done = write_column(&self->list, outputs + i, row);
        else
            done = is_header ? write_fixed(&self->list, 0x41, 0, 0) : write_id(self, outputs, row);
        if (done != WRITTEN)
            return done;
    }
    return write_compound(self, section, 0xc0, count);
}

/* Write a section that is a map of texts, if the row has one that is not empty. */
static int write_map(Writing *self, unsigned section, const Input *input, Py_ssize_t row)
{
    if (input == NULL || !is_valid(&input->main, row))
        return WRITTEN;
    const Py_ssize_t from = offset_of(&input->main, row), to = offset_of(&input->main, row + 1);
    if (to - from > MAX_PAIRS)
        return RARE;
    self->list.size = 0;
    for (Py_ssize_t pair = from; pair < to; pair++) {
        const Slice key = slice_of(&input->keys, pair);
        if (!is_valid(&input->keys, pair))
            return RARE;
        for (Py_ssize_t other = from; other < pair; other++) {
            const Slice before = slice_of(&input->keys, other);
            if (before.size == key.size && memcmp(before.at, key.at, key.size) == 0)
                return RARE;
        }
        int done = section == ANNOTATIONS ? write_symbol(&self->list, key) : write_string(&self->list, key);
        if (done != WRITTEN)
            return done;
        done = is_valid(&input->items, pair) ? write_string(&self->list, slice_of(&input->items, pair))
                                             : write_fixed(&self->list, 0x40, 0, 0);
        if (done != WRITTEN)
            return done;
    }
    return from == to ? WRITTEN : write_compound(self, section, 0xc1, 2 * (size_t)(to - from));
}

static int write_body(Writing *self, Py_ssize_t row)
{
    const Input *body = self->others[OF_BODY], *type = self->others[OF_BODY_TYPE];
    if (body == NULL || !is_valid(&body->main, row))
        return write_section(&self->message, VALUE) < 0 ? -1 : write_fixed(&self->message, 0x40, 0, 0);
    int is_text = body->form == TEXT_FORM;
    if (type != NULL && is_valid(&type->main, row)) {
        const Slice name = slice_of(&type->main, row);
        if (name.size != 6 || (memcmp(name.at, "binary", 6) != 0 && memcmp(name.at, "string", 6) != 0))
            return RARE;
        is_text = name.at[0] == 's';
    }
    if (write_section(&self->message, is_text ? VALUE : DATA) < 0)
        return -1;
    const Slice content = slice_of(&body->main, row);
    return is_text ? write_string(&self->message, content) : write_sized(&self->message, 0xa0, content);
}

static int write_row(Writing *self, Py_ssize_t row)
{
    int done;
    self->message.size = 0;
    if ((done = write_list(self, HEADER, self->header, HEADER_FIELDS, row)) == WRITTEN &&
        (done = write_map(self, ANNOTATIONS, self->others[OF_ANNOTATIONS], row)) == WRITTEN &&
        (done = write_list(self, PROPERTIES, self->properties, PROPERTIES_FIELDS, row)) == WRITTEN &&
        (done = write_map(self, APPLICATION_PROPERTIES, self->others[OF_APPLICATION_PROPERTIES], row)) == WRITTEN)
        done = write_body(self, row);
    return done;
}

/* ------------------------------------------------------------------------------------------------- taking of the columns */

static int refuse_layout(void)
{
    PyErr_SetString(PyExc_ValueError, "a column does not have the buffers of its form");
    return -1;
}

static int take_buffer(Layout *layout, PyObject *buffers, Py_ssize_t at, Py_ssize_t least, const char **to, Py_ssize_t *size)
{
    PyObject *buffer = at < PyList_Size(buffers) ? PyList_GetItem(buffers, at) : Py_None;
    *to = NULL;
    *size = 0;
    if (buffer != Py_None) {
        Py_buffer *view = layout->views + layout->held;
        if (PyObject_GetBuffer(buffer, view, PyBUF_SIMPLE) < 0)
            return -1;
        layout->held++;
        *to = view->buf;
        *size = view->len;
    }
    return *size < least ? refuse_layout() : 0;
}

/* Take an array; its offsets must be in order, and the last one not larger than `most`, or its bytes if that is -1. */
static int take_array(Layout *layout, int form, PyObject *part, Py_ssize_t most)
{
    PyObject *nulls, *buffers, *children;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(part, "nOO!O!:encode", &layout->rows, &nulls, &PyList_Type, &buffers, &PyList_Type, &children))
        return -1;
    const Py_ssize_t rows = layout->rows, bits = rows / 8 + (rows % 8 != 0);
    if (rows < 0 || rows > PY_SSIZE_T_MAX / 16)
        return refuse_layout();
    if (take_buffer(layout, buffers, 0, 0, &layout->valid, &size) < 0)
        return -1;
    if (layout->valid != NULL && size < bits)
        return refuse_layout();
    if (form != BYTES_FORM && form != TEXT_FORM && form != MAP_FORM) {
        const Py_ssize_t width = form == INT32_FORM ? 4 : 8;
        return take_buffer(layout, buffers, 1, form == FLAG_FORM ? bits : rows * width, &layout->values, &size);
    }
    if (take_buffer(layout, buffers, 1, rows ? (rows + 1) * 4 : 0, &layout->offsets, &size) < 0)
        return -1;
    if (most < 0) {
        if (take_buffer(layout, buffers, 2, 0, &layout->values, &most) < 0)
            return -1;
    }
    int32_t before = 0;
    for (Py_ssize_t row = 0; rows && row <= rows; row++) {
        const int32_t offset = offset_of(layout, row);
        if (offset < before || offset > most)
            return refuse_layout();
        before = offset;
    }
    return 0;
}

static int take_input(Input *input, PyObject *part)
{
    PyObject *children = PyTuple_Check(part) && PyTuple_Size(part) == 4 ? PyTuple_GetItem(part, 3) : Py_None;
    Py_ssize_t most = -1;
    if (!PyList_Check(children) || PyList_Size(children) != (input->form == MAP_FORM ? 2 : 0))
        return refuse_layout();
    if (input->form == MAP_FORM) {
        if (take_array(&input->keys, TEXT_FORM, PyList_GetItem(children, 0), -1) < 0 ||
            take_array(&input->items, TEXT_FORM, PyList_GetItem(children, 1), -1) < 0)
            return -1;
        most = input->keys.rows < input->items.rows ? input->keys.rows : input->items.rows;
    }
    return take_array(&input->main, input->form, part, most);
}

static void let_go(Layout *layout)
{
    while (layout->held > 0)
        PyBuffer_Release(layout->views + --layout->held);
}

static int take_column(Writing *self, Py_ssize_t at, PyObject *described)
{
    int source, index;
    PyObject *part, *absent;
    Input *input = self->inputs + at;
    if (at == MAX_INPUTS || !PyTuple_Check(described)) {
        PyErr_Format(PyExc_ValueError, "at most %d columns, each as a tuple", MAX_INPUTS);
        return -1;
    }
    if (!PyArg_ParseTuple(described, "iiiOO!:encode", &source, &index, &input->form, &absent, &PyTuple_Type, &part))
        return -1;
    const int fields = source == OF_HEADER ? HEADER_FIELDS : PROPERTIES_FIELDS;
    if (source < 0 || source >= SOURCES || input->form < 0 || input->form >= FORMS || index < 0 || index >= fields) {
        PyErr_SetString(PyExc_ValueError, "no such source, field or form");
        return -1;
    }
    if (take_input(input, part) < 0)
        return -1;
    if (input->main.rows != self->rows)
        return refuse_layout();
    if (source != OF_HEADER && source != OF_PROPERTIES) {
        self->others[source] = input;
        return 0;
    }
    Output *output = (source == OF_HEADER ? self->header : self->properties) + index;
    output->input = input;
    output->has_absent = absent != Py_None;
    output->absent = output->has_absent ? PyLong_AsLongLong(absent) : 0;
    return PyErr_Occurred() ? -1 : 0;
}

/* ------------------------------------------------------------------------------------------------------------- encode */

static PyObject *encoded_rows(Writing *self)
{
    PyObject *messages = PyList_New(self->rows);
    for (Py_ssize_t row = 0; messages != NULL && row < self->rows; row++) {
        const int done = write_row(self, row);
        PyObject *message = NULL;
        if (done == WRITTEN)
            message = PyBytes_FromStringAndSize(self->message.at, (Py_ssize_t)self->message.size);
        else if (done == RARE)
            message = Py_NewRef(Py_None);
        if (message == NULL || PyList_SetItem(messages, row, message) < 0)
            Py_CLEAR(messages);
    }
    return messages;
}

static int prepare(Writing *self, PyObject *header, PyObject *properties, PyObject *columns)
{
    Field of_header[HEADER_FIELDS], of_properties[PROPERTIES_FIELDS];
    if (read_known(header, of_header, HEADER_FIELDS) < 0 || read_known(properties, of_properties, PROPERTIES_FIELDS) < 0)
        return -1;
    for (size_t i = 0; i < HEADER_FIELDS; i++)
        self->header[i].known = of_header[i];
    for (size_t i = 0; i < PROPERTIES_FIELDS; i++)
        self->properties[i].known = of_properties[i];
    for (Py_ssize_t i = 0; i < PyList_Size(columns); i++)
        if (take_column(self, i, PyList_GetItem(columns, i)) < 0)
            return -1;
    return 0;
}

PyDoc_STRVAR(encode_doc, "encode(header, properties, columns, rows, durable, prefix, first_id): see columns.encode_rows. A "
                         "column is a tuple of source, index, form, absent value and part.");

static PyObject *encode(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *header, *properties, *columns, *messages = NULL;
    Writing *self = PyMem_Calloc(1, sizeof *self);
    if (self == NULL)
        return PyErr_NoMemory();
    if (PyArg_ParseTuple(args, "O!O!O!npz#n:encode", &PyList_Type, &header, &PyList_Type, &properties, &PyList_Type, &columns,
                         &self->rows, &self->durable, &self->prefix, &self->prefix_size, &self->first_id) &&
        prepare(self, header, properties, columns) == 0)
        messages = encoded_rows(self);
    for (size_t i = 0; i < MAX_INPUTS; i++) {
        let_go(&self->inputs[i].main);
        let_go(&self->inputs[i].keys);
        let_go(&self->inputs[i].items);
    }
    drop(&self->message);
    drop(&self->list);
    PyMem_Free(self);
    return messages;
}
