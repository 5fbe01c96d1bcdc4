WITH RECURSIVE rel AS (
    SELECT c.oid, c.relkind, c.relrowsecurity, c.relowner
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind NOT IN ('i', 'I', 't', 'c', 'S')
), col AS (
    SELECT a.attnum, a.attname, a.attnotnull, a.attgenerated, a.attidentity, a.attndims, a.atttypid, a.atttypmod,
           pg_catalog.pg_get_expr(d.adbin, d.adrelid) AS expression
    FROM rel JOIN pg_catalog.pg_attribute a ON a.attrelid = rel.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
), base AS (
    SELECT attnum, atttypid AS typid, atttypmod AS modifier FROM col
    UNION ALL
    SELECT b.attnum, t.typbasetype, CASE WHEN b.modifier = -1 THEN t.typtypmod ELSE b.modifier END
    FROM base b JOIN pg_catalog.pg_type t ON t.oid = b.typid WHERE t.typtype = 'd'
)
SELECT json_build_object(
    'kind', rel.relkind,
    'row_security', rel.relrowsecurity,
    'columns', (
        SELECT coalesce(json_agg(json_build_object(
            'name', col.attname, 'not_null', col.attnotnull, 'type_name', t.typname, 'type_schema', tn.nspname,
            'type_kind', t.typtype, 'modifier', base.modifier, 'dimensions', least(col.attndims, 255),
            'labels', (SELECT json_agg(e.enumlabel ORDER BY e.enumsortorder) FROM pg_catalog.pg_enum e
                       WHERE e.enumtypid IN (t.oid, CASE WHEN t.typcategory = 'A' THEN t.typelem END)),
            'generated', col.attgenerated, 'identity', col.attidentity, 'default', col.expression
        ) ORDER BY col.attnum), '[]')
        FROM col JOIN base ON base.attnum = col.attnum
        JOIN pg_catalog.pg_type t ON t.oid = base.typid AND t.typtype <> 'd'
        JOIN pg_catalog.pg_namespace tn ON tn.oid = t.typnamespace
    ),
    'indexes', (
        SELECT coalesce(json_agg(json_build_object(
            'name', ic.relname, 'primary', i.indisprimary, 'deferrable', NOT i.indimmediate,
            'partial', i.indpred IS NOT NULL OR i.indexprs IS NOT NULL OR NOT i.indisvalid,
            'columns', (SELECT json_agg(a.attname ORDER BY k.n)
                        FROM unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, n)
                        LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum AND k.attnum > 0
                        WHERE k.n <= i.indnkeyatts)
        ) ORDER BY NOT i.indisprimary, ic.relname), '[]')
        FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class ic ON ic.oid = i.indexrelid
        WHERE i.indrelid = rel.oid AND i.indisunique
    ),
    'rules', (SELECT coalesce(json_agg(r.rulename), '[]') FROM pg_catalog.pg_rewrite r
              WHERE r.ev_class = rel.oid AND r.rulename <> '_RETURN'),
    'triggers', (SELECT coalesce(json_agg(g.tgname), '[]') FROM pg_catalog.pg_trigger g
                 WHERE g.tgrelid = rel.oid AND NOT g.tgisinternal AND g.tgenabled <> 'D'),
    'foreign_keys', (SELECT coalesce(json_agg(json_build_object('name', k.conname, 'of', k.conrelid::pg_catalog.regclass::text)), '[]')
                     FROM pg_catalog.pg_constraint k WHERE k.contype = 'f' AND rel.oid IN (k.conrelid, k.confrelid)),
    'rights', json_build_object(
        'select', has_table_privilege(rel.oid, 'SELECT'), 'insert', has_table_privilege(rel.oid, 'INSERT'),
        'update', has_table_privilege(rel.oid, 'UPDATE'), 'delete', has_table_privilege(rel.oid, 'DELETE'),
        'truncate', has_table_privilege(rel.oid, 'TRUNCATE'), 'owner', pg_has_role(rel.relowner, 'USAGE'))
)::text
FROM rel
