/* Messages that C reads, put into columns. Before this header: what _columns.c includes, and its types. */

static int put_map(Column *column, const Map *map)
{
    const unsigned char *at = map->at;
    Value key, value;
    for (size_t i = 0; i < map->pairs; i++) {
        if (!read_value(&at, map->end, &key) || !read_value(&at, map->end, &value)) {
            PyErr_SetString(PyExc_SystemError, "a map has changed while it was read");
            return -1;
        }
        if (put_bytes(&column->keys, (const char *)key.at, key.size) < 0 || put_text(&column->items, &value) < 0)
            return -1;
    }
    if (put_offset(&column->main, (size_t)column->keys.rows) < 0)
        return -1;
    return put_valid(&column->main, 1);
}

static int put_field(Column *column, const Value *value)
{
    const int valid = value->kind != ABSENT || column->has_absent;
    int64_t number = value->kind == ABSENT ? column->absent : value->number;
    switch (column->form) {
    case BYTES_FORM: case TEXT_FORM:
        if (column->form == TEXT_FORM)
            return put_text(&column->main, value);
        return valid ? put_bytes(&column->main, (const char *)value->at, value->size) : put_no_bytes(&column->main);
    case TIME_FORM:
        number = number < FIRST_MS ? FIRST_MS : number > LAST_MS ? LAST_MS : number;
        return put_64(&column->main, number * 1000, valid);
    case INT32_FORM: return put_32(&column->main, number, valid);
    case INT64_FORM: return put_64(&column->main, number, valid);
    default: return put_flag(&column->main, number != 0, valid);
    }
}

static int put_body(Column *column, const Read *read)
{
    Vector *vector = &column->main;
    if (read->body_kind == NO_BODY)
        return put_no_bytes(vector);
    if (put(&vector->values, read->body, read->body_size) < 0)
        return -1;
    const unsigned char *at = read->body + read->body_size;
    while (read->body_kind == DATA_BODY && at < read->end) { /* the other sections, which have been read before */
        Value value = {0};
        at += 3;
        if (!read_value(&at, read->end, &value) || put(&vector->values, value.at, value.size) < 0)
            return -1;
    }
    if (put_offset(vector, vector->values.size) < 0)
        return -1;
    return put_valid(vector, 1);
}

/* Read the annotation of a column. Return 0 if it is no number that C reads, and 1 otherwise; then it may be absent. */
static int read_annotation(const Column *column, const Read *read, Value *value)
{
    const size_t size = (size_t)PyBytes_Size(column->key);
    const char *wanted = PyBytes_AsString(column->key);
    const unsigned char *at = read->annotations.at;
    Value key;
    for (size_t i = 0; i < read->annotations.pairs; i++) {
        if (!read_value(&at, read->annotations.end, &key) || !read_value(&at, read->annotations.end, value))
            return 0;
        if (key.size == size && memcmp(key.at, wanted, size) == 0)
            return value->kind == ABSENT || value->kind == SIGNED || (value->kind == UNSIGNED && value->number >= 0);
    }
    value->kind = ABSENT;
    return 1;
}

static int put_annotation(Column *column, const Read *read)
{
    Value value = {0};
    if (!read_annotation(column, read, &value)) {
        PyErr_SetString(PyExc_SystemError, "an annotation has changed while it was read");
        return -1;
    }
    return put_64(&column->main, value.number, value.kind != ABSENT);
}

static int put_message(Columns *self, const Read *read)
{
    static const char *const names[] = {"null", "binary", "string"};
    for (Py_ssize_t i = 0; i < self->count; i++) {
        Column *column = self->columns + i;
        int done;
        switch (column->source) {
        case OF_HEADER: done = put_field(column, read->header + column->index); break;
        case OF_PROPERTIES: done = put_field(column, read->properties + column->index); break;
        case OF_BODY: done = put_body(column, read); break;
        case OF_BODY_TYPE:
            done = put_bytes(&column->main, names[read->body_kind], strlen(names[read->body_kind]));
            break;
        case OF_APPLICATION_PROPERTIES: done = put_map(column, &read->application_properties); break;
        case OF_ANNOTATIONS: done = put_map(column, &read->annotations); break;
        default: done = put_annotation(column, read); break;
        }
        if (done < 0)
            return -1;
    }
    return 0;
}

/* Return whether C can make what is asked for of the maps: texts of their values, and numbers. */
static int maps_are_plain(const Columns *self, const Read *read)
{
    for (Py_ssize_t i = 0; i < self->count; i++) {
        const int source = self->columns[i].source;
        const Map *map = source == OF_APPLICATION_PROPERTIES ? &read->application_properties : &read->annotations;
        Value key, value = {0};
        if (source == OF_ANNOTATION && !read_annotation(self->columns + i, read, &value))
            return 0;
        if (source != OF_APPLICATION_PROPERTIES && source != OF_ANNOTATIONS)
            continue;
        const unsigned char *at = map->at;
        for (size_t pair = 0; pair < map->pairs; pair++)
            if (!read_value(&at, map->end, &key) || !read_value(&at, map->end, &value) || !has_text(&value))
                return 0;
    }
    return 1;
}

/* A message that was drawn, which is valid until it is ended. */
typedef struct {
    PyObject *object; /* NULL if there is none */
    const char *at;   /* NULL if there is no message, or only Python can read it */
    Py_ssize_t size;
} Drawn;

/* Draw the next message; return -1 with an error set. */
static int draw(Columns *self, PyObject *messages, Drawn *drawn)
{
    drawn->object = NULL;
    drawn->at = NULL;
    if ((PyObject *)Py_TYPE(messages) == self->sections) {
        drawn->at = next_section((Sections *)messages, &drawn->size);
        return 0;
    }
    drawn->object = PyIter_Next(messages);
    if (drawn->object != NULL && PyBytes_CheckExact(drawn->object)) {
        drawn->at = PyBytes_AsString(drawn->object);
        drawn->size = PyBytes_Size(drawn->object);
    }
    return drawn->object == NULL && PyErr_Occurred() ? -1 : 0;
}

PyDoc_STRVAR(add_doc, "add(messages, most, most_bytes, largest): see columns_in_python.py.");

static PyObject *add(PyObject *object, PyObject *args)
{
    Columns *self = (Columns *)object;
    PyObject *messages;
    Py_ssize_t most, most_bytes, largest;
    Drawn drawn;
    Read read;
    if (!PyArg_ParseTuple(args, "Onnn:add", &messages, &most, &most_bytes, &largest))
        return NULL;
    if (!PyIter_Check(messages))
        return PyErr_Format(PyExc_TypeError, "an iterator is needed");
    while (self->rows < most && self->size < most_bytes) {
        if (draw(self, messages, &drawn) < 0)
            return NULL;
        if (drawn.at == NULL && drawn.object == NULL)
            break;
        if (drawn.at == NULL || drawn.size > largest ||
            !read_message(drawn.at, (size_t)drawn.size, self->header, self->properties, &read) ||
            !maps_are_plain(self, &read))
            return drawn.object != NULL ? drawn.object : PyBytes_FromStringAndSize(drawn.at, drawn.size);
        const int done = put_message(self, &read);
        Py_XDECREF(drawn.object);
        if (done < 0)
            return NULL;
        self->rows++;
        self->size += drawn.size;
    }
    return Py_NewRef(Py_None);
}
