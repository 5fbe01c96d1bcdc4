SELECT json_build_object(
    'decided', s.decided,
    'stop', CASE WHEN s.stop_epoch IS NOT NULL THEN json_build_array(s.stop_namespace, s.stop_table, s.stop_epoch) END,
    'outcomes', (SELECT coalesce(json_agg(json_build_array(epoch, namespace, name, outcome)), '[]') FROM (
        SELECT * FROM instar.outcomes WHERE sink = s.id AND outcome IN ('pending', 'held', 'queued', 'stopped')
        UNION ALL
        SELECT * FROM instar.outcomes WHERE $2 AND sink = s.id AND epoch > s.decided AND outcome NOT IN ('pending', 'held', 'queued', 'stopped')
    ) o),
    'held', (SELECT coalesce(json_agg(json_build_array(namespace, name, kind, epoch)), '[]') FROM instar.holds WHERE sink = s.id),
    'queued', (SELECT coalesce(json_agg(json_build_array(namespace, name, epoch) ORDER BY epoch), '[]') FROM instar.queue WHERE sink = s.id),
    'blocked', (SELECT coalesce(json_agg(json_build_array(namespace, name, epoch)), '[]') FROM instar.blocks WHERE sink = s.id),
    'retired', (SELECT coalesce(json_agg(json_build_array(namespace, name)), '[]') FROM instar.retired WHERE sink = s.id),
    'approved', (SELECT coalesce(json_agg(json_build_array(namespace, name, approval)), '[]') FROM instar.approvals WHERE sink = s.id),
    'lanes', (SELECT coalesce(json_agg(json_build_array(namespace, name, lane, position, seq, epoch)), '[]') FROM instar.lanes WHERE $2 AND sink = s.id)
)::text
FROM instar.sinks s WHERE s.id = $1
