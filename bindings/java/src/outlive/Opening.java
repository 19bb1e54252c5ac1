package outlive;

/** What an opening does with a name. */
public enum Opening {
    /** Opens what has the name, and makes it if nothing has. */
    OPEN_OR_CREATE,
    /** Opens what has the name, which must exist: else {@link Code#NOT_FOUND}. */
    OPEN,
    /** Makes something new of a name that nothing may have: else {@link Code#EXISTS}. */
    CREATE_NEW
}
